# SPDX-License-Identifier: Apache-2.0
# Sphinx: how scripts/make-site turns the Markdown pages and the manual pages into a site.
import os

project = "utofu-verbs"
release = version = os.environ["SITE_VERSION"]
author = "the utofu-verbs authors"
copyright = author + ", Apache-2.0"  # noqa: A001, the name is Sphinx's
extensions = ["myst_parser"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
manpages_url = "{page}.{section}.html"
myst_heading_anchors = 3
highlight_language = "none"
html_theme = "furo"
html_title = f"utofu-verbs {release}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_js_files = ["search.js"]
html_copy_source = False
html_show_sourcelink = False


def set_language(app, name, template, context, doctree):
    """Japanese text needs Japanese glyphs: browsers choose them by the language of the page."""
    if "tutorial/ja/" in name:
        context["language"] = "ja"


def setup(app):
    app.connect("html-page-context", set_language)
    return {"parallel_read_safe": True}
