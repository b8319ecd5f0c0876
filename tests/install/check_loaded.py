#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares packaging/loaded-libraries with the calls of dlopen() in the sources, and the packages and
images with that table. With --bad-twins, each removed name is noticed.

usage: check_loaded.py SOURCE [--bad-twins]"""
import pathlib
import re
import sys

FOLDERS = ('src', 'provider', 'layers', 'tools', 'compat')
TABLE, CONTROL, SPEC = 'packaging/loaded-libraries', 'debian/control', 'packaging/rpm/utofu-verbs.spec'
IMAGES = ('packaging/container/Containerfile', 'packaging/container/Containerfile.ci',
          'packaging/container/utofu-verbs.def')


class Row:
    def __init__(self, line):
        self.library, self.need, self.debian, self.rpm, *files = line.split()
        self.files = [f for f in files if f != '-']

    def in_package(self):
        return self.need == 'package'


def read_tree(source):
    """The text of each file that is compared."""
    paths = [source / p for p in (TABLE, CONTROL, SPEC, *IMAGES)]
    for folder in FOLDERS:
        paths += [p for p in (source / folder).rglob('*') if p.suffix in ('.c', '.h', '.hpp')]
    return {str(p.relative_to(source)): p.read_text() for p in sorted(paths)}


def table(tree):
    return [Row(line) for line in tree[TABLE].splitlines() if line and not line.startswith('#')]


def section(text, start, end):
    """The part of the text from the line `start` to the next line that matches `end`."""
    after = text.split(start, 1)[1] if start in text else ''
    return re.split(end, after, maxsplit=1, flags=re.M)[0]


def without_comments(text):
    return re.sub(r'/\*.*?\*/|//[^\n]*', '', text, flags=re.S)


def loading_files(tree):
    """The files that call dlopen(), and the names of libraries in each."""
    found = {}
    for path, text in tree.items():
        if not path.startswith(FOLDERS):
            continue
        code = without_comments(text)
        if re.search(r'\bdlopen\(', code):
            found[path] = set(re.findall(r'\blib[a-z]+\.so\.[0-9]+', code))
    return found


def check_sources(tree, rows):
    for path, libraries in loading_files(tree).items():
        named = {row.library for row in rows if path in row.files}
        if not named:
            yield f'{path} calls dlopen(), and {TABLE} does not have it'
        for library in sorted(libraries - named):
            yield f'{path} names {library}, and {TABLE} does not say so'
    for row in rows:
        for path in row.files:
            if not re.search(r'\bdlopen\(', without_comments(tree.get(path, ''))):
                yield f'{TABLE}: {path} does not call dlopen()'


def check_packages(tree, rows):
    stanza = section(tree[CONTROL], 'Package: libtofucom1\n', r'^$')
    recommends = section(stanza, '\nRecommends:', r'^\S')
    debian = set(re.findall(r'[a-z0-9.+-]+', recommends))
    rpm = set(re.findall(r'^Recommends:\s+(\S+)', section(tree[SPEC], '\n%package libs\n', r'^%description'), re.M))
    for row in rows:
        if not row.in_package():
            continue
        if row.debian not in debian:
            yield f'{CONTROL}: libtofucom1 does not recommend {row.debian}, which has {row.library}'
        if row.rpm not in rpm:
            yield f'{SPEC}: libs does not recommend {row.rpm}, which has {row.library}'
        for image in IMAGES:
            last = re.sub(r'^\s*#.*$', '', tree[image], flags=re.M).rsplit('apt-get install', 1)[1]
            if row.debian not in last.split('rm -rf')[0].split():
                yield f'{image}: the image lacks {row.debian}, which has {row.library}'


def check(tree):
    rows = table(tree)
    return [*check_sources(tree, rows), *check_packages(tree, rows)]


def bad_twins(tree):
    """Trees in which one thing is missing, each with what is."""
    for row in table(tree):
        for path in (CONTROL, SPEC, *IMAGES) if row.in_package() else ():
            name = row.rpm if path == SPEC else row.debian
            yield f'{name} of {path}', {**tree, path: re.sub(rf'(?<![\w-]){re.escape(name)}(?![\w-])', '', tree[path])}
        for path in row.files:
            yield f'{path} in the table', {**tree, TABLE: tree[TABLE].replace(path, '')}
            yield f'the call in {path}', {**tree, path: ''}
    other = {**tree, 'src/other.c': 'void *library = dlopen("libother.so.1", RTLD_NOW);\n'}
    yield 'a row for src/other.c', other


def main():
    tree = read_tree(pathlib.Path(sys.argv[1]))
    problems = check(tree)
    if '--bad-twins' in sys.argv:
        twins = list(bad_twins(tree))
        problems += [f'without {what} nothing is found' for what, twin in twins if not check(twin)]
        print(f'{len(twins)} bad twins')
    for problem in problems:
        print(f'FAIL: {problem}')
    return 1 if problems else 0


sys.exit(main())
