"""The site of `docs/`: what MkDocs is given beside the documents. `make docs` builds it; mkdocs.yml names the hooks."""
