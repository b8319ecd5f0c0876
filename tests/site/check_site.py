#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the site, as `meson compile site` does, and follows its links.

usage: check_site.py OUT PYTHON MAKE-SITE SOURCES VERSION PAGE...

Sphinx may not warn of anything. Each link within the site has to lead to a file of it, and to an id of that file; each
page has to be reached from the start page, and the search has to know functions. Broken links are noticed.
"""
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag


class Page(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.links, self.ids = [], set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.ids.add(attrs.get("id"))
        self.links += [attrs[name] for name in ("href", "src") if attrs.get(name)]


def target_of(path, link):
    """The file of the site that a link leads to, and the id there."""
    target, fragment = urldefrag(link)
    there = os.path.normpath(path.parent / unquote(target.partition("?")[0])) if target else str(path)
    return Path(there + "/index.html" if os.path.isdir(there) else there), unquote(fragment)


def broken_links(root, pages, start):
    """Those of a page."""
    for link in pages[start].links:
        if re.match(r"\w+:|//", link):
            continue
        there, fragment = target_of(start, link)
        if not there.is_relative_to(root) or (there not in pages and not there.exists()):
            yield f"{start.relative_to(root)}: {link} is not there"
        elif fragment and there in pages and fragment not in pages[there].ids:
            yield f"{start.relative_to(root)}: {link}: that page has no such id"


def unreached(root, pages):
    seen, left = set(), [root / "index.html"]
    while left:
        path = left.pop()
        if path in pages and path not in seen:
            seen.add(path)
            left += [target_of(path, link)[0] for link in pages[path].links if not re.match(r"\w+:|//", link)]
    yield from (f"no link leads to {path.relative_to(root)}" for path in sorted(set(pages) - seen)
                if path.name not in ("genindex.html", "search.html"))


def main():
    out, command = Path(sys.argv[1]).resolve(), sys.argv[2:6] + [sys.argv[1]] + sys.argv[6:]
    done = subprocess.run(command, check=False)
    if done.returncode:
        return done.returncode
    root = out / "html"
    pages = {path: Page(path.read_text()) for path in root.rglob("*.html")}
    wrong = [line for path in sorted(pages) for line in broken_links(root, pages, path)] + list(unreached(root, pages))
    if f"utofu-verbs {sys.argv[5]}" not in (root / "index.html").read_text():
        wrong.append("the start page does not say the version")
    if "utofu_put(3)" not in (root / "searchindex.js").read_text():
        wrong.append("the search does not know utofu_put(3)")
    start = root / "index.html"
    for link in ("nowhere.html", "README.html#no-such-section"):
        twin = dict(pages)
        twin[start] = Page(start.read_text() + f'<a href="{link}">')
        if not list(broken_links(root, twin, start)):
            wrong.append(f"a link to {link} is not noticed")
    for line in wrong:
        print("FAIL:", line)
    print(f"{len(pages)} pages, {sum(len(page.links) for page in pages.values())} links")
    return 1 if wrong else 0


sys.exit(main())
