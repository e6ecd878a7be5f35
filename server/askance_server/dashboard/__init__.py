"""The pages: rendered on the server, live by its stream of events, with nothing from any other host.

`assets` has style sheet and scripts, `templates` writes HTML, `responses` sends it under a strict policy: what every
page is built on. `routes` has the addresses of the dashboard; a module for each page collects what it shows.
"""
