#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The recipes of packaging/ and the workflow are correct, as far as the installed linters can
# tell, and contain this version and existing options and files.
#
# usage: check_packaging.sh SOURCE VERSION
here=$(cd "$(dirname "$0")" && pwd)
failures=0
fail() {
    failures=$((failures + 1))
    echo "FAIL: $*"
}

has() {
    command -v "$1" >/dev/null || { echo "not tried: $1 is not installed"; return 1; }
}

cd "$1" || exit 2
version=$2
spec=packaging/rpm/utofu-verbs.spec
recipe=packaging/spack/package.py
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

scripts/release --check >"$work/out" && grep -q "^ok: version $version " "$work/out" || { fail 'the version'; cat "$work/out"; }
if has rpmspec; then
    rpmspec -P $spec >"$work/out" 2>&1 || { fail "rpmspec -P"; cat "$work/out"; }
fi
if has rpmlint; then
    rpmlint -r packaging/rpm/utofu-verbs.rpmlintrc $spec >"$work/out" 2>&1 &&
        grep -q ' 0 errors, 0 warnings' "$work/out" || { fail "rpmlint"; cat "$work/out"; }
fi
if has flake8; then # recipes use the star import
    flake8 --max-line-length 100 --extend-ignore F403,F405 $recipe || fail "flake8"
fi
python3 "$here/check_recipe.py" $recipe meson_options.txt || fail "$recipe"
python3 "$here/check_easyconfig.py" packaging/easybuild/utofu-verbs.eb meson_options.txt || fail "the recipe for EasyBuild"
if has yamllint; then
    yamllint -s -c packaging/yamllint.yml .github/workflows/*.yml action.yml examples/ci-project/ci/*.yml || fail "yamllint"
fi
if python3 -c 'import yaml' 2>/dev/null; then
    python3 "$here/run_workflow.py" --check . || fail "the workflows"
else
    echo 'not tried: python3-yaml is not installed'
fi
# the files that the workflow and the images use exist
for file in $(grep -oh '\(scripts\|packaging\)/[a-zA-Z./-]*' .github/workflows/*.yml action.yml \
    packaging/container/* docs/guide/ci.md docs/guide/hosts.md); do
    [ -e "$file" ] || fail "$file is named in a workflow or an image, and is not there"
done
[ $failures = 0 ] && echo ok
[ $failures = 0 ]
