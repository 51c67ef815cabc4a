"""The Jinja2 templates of the generated C project, as package data of `mcutrain_templates`."""
