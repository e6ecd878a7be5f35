"""The REST interface: a module per resource, and the raw path of single reports, `reports`.

`models` are the documents, `dependencies` what endpoints ask for, `limits` and `version` what every request keeps to,
`description` the OpenAPI document.
"""
