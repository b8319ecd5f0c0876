#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# scripts/release: the version is the same everywhere; each place that differs, or has none, is named; and a release
# writes every place, with the date in CHANGELOG.md and the packages' own.
#
# usage: release_test.sh SOURCE
set -u
source=$1
release=$source/scripts/release
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0
fail() {
    failures=$((failures + 1))
    echo "FAIL: $*"
    sed 's/^/    /' "$work/out"
}

# names the places, from the script itself
mapfile -t files < <(sed -n '/^PLACES/,/^]/s/^    ("\([^"]*\)".*/\1/p' "$release" | sort -u)
[ ${#files[@]} -ge 7 ] || fail "only ${#files[@]} places are known"

# copy TREE: the files with a version
copy() {
    local file
    rm -rf "$1"
    for file in meson.build "${files[@]}"; do
        mkdir -p "$1/$(dirname "$file")"
        cp "$source/$file" "$1/$file"
    done
}

"$release" --check >"$work/out" 2>&1 || fail 'the version is not the same everywhere'
version=$(sed -n 's/^ok: version \(.*\) in .*/\1/p' "$work/out")

# another version in one place is found, and named: that of a tree that was released
copy "$work/other"
"$release" 9.9.9 --tree "$work/other" >"$work/out" 2>&1 || fail 'a release'
for file in "${files[@]}"; do
    if cmp -s "$source/$file" "$work/other/$file"; then
        [ "$file" = README.md ] || fail "$file: a release changes nothing"
        continue # names none now
    fi
    copy "$work/tree"
    cp "$work/other/$file" "$work/tree/$file"
    "$release" --check --tree "$work/tree" >"$work/out" 2>&1 && fail "$file: another version passes"
    grep -q "^$file: 9.9.9, and meson.build has $version" "$work/out" || fail "$file is not named"
done
rm "$work/tree/debian/changelog"
"$release" --check --tree "$work/tree" >"$work/out" 2>&1 && fail 'a missing file passes'
grep -q '^debian/changelog is not there' "$work/out" || fail 'a missing file is not named'

# a release, and the begin of the next version
copy "$work/tree"
"$release" 2.3.4 --date 2031-02-03 --tree "$work/tree" >"$work/out" 2>&1 || fail 'a release'
for text in "meson.build:version: '2.3.4'" 'CHANGELOG.md:^## 2.3.4 (2031-02-03)$' 'debian/changelog:^utofu-verbs (2.3.4) unstable' \
    'debian/changelog: -- .*  Mon, 03 Feb 2031 12:00:00 +0000' "debian/changelog:^utofu-verbs ($version) unstable" \
    'packaging/rpm/utofu-verbs.spec:^Version: *2.3.4$' 'packaging/rpm/utofu-verbs.spec:^\* Mon Feb 03 2031 .* - 2.3.4-1$'; do
    grep -q -- "${text#*:}" "$work/tree/${text%%:*}" || fail "no '${text#*:}' in ${text%%:*} after a release"
done
dpkg-parsechangelog -l "$work/tree/debian/changelog" -SVersion >"$work/out" 2>&1 || fail 'debian/changelog cannot be read'
[ "$(cat "$work/out")" = 2.3.4 ] || fail 'debian/changelog has another version'
"$release" 2.3.5 --tree "$work/tree" >"$work/out" 2>&1 && fail 'a release without a section (unreleased)'
grep -q 'no section (unreleased)' "$work/out" || fail 'the reason is missing'
"$release" 2.4.0 --begin --tree "$work/tree" >"$work/out" 2>&1 || fail 'the begin of a version'
[ "$(grep '^## ' "$work/tree/CHANGELOG.md" | head -2 | paste -sd' ')" = '## 2.4.0 (unreleased) ## 2.3.4 (2031-02-03)' ] ||
    fail 'the sections of CHANGELOG.md'
"$release" 2.4.0 --date 2031-03-04 --tree "$work/tree" >"$work/out" 2>&1 || fail 'the second release'
[ "$(grep -c '^utofu-verbs (2.4.0)' "$work/tree/debian/changelog")" = 1 ] || fail 'two entries for one version'

for wrong in '' '1.0' '--date 1.2.3' '--check 1.0.0' '1.0.0 --date tomorrow'; do
    # shellcheck disable=SC2086 # words
    "$release" $wrong --tree "$work/tree" >"$work/out" 2>&1
    [ $? = 2 ] || fail "release $wrong: not wrong usage"
done
[ $failures = 0 ] && echo "ok: ${#files[@]} files"
[ $failures = 0 ]
