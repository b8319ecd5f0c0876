#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The library exports the names of the version script, the headers declare the same names, the soname
# is the one programs were linked with, and every utofu_* is a weak alias of its putofu_* twin.
#
# usage: check_exports.sh LIB MAP HEADER     (utofu_profile.h and utofu_ext.h lie beside HEADER)
#
# The names of utofu_ext.h have a version of their own and no twin.
set -u
export LC_ALL=C

if [ $# -ne 3 ]; then
    echo "usage: $0 LIB MAP HEADER" >&2
    exit 2
fi
lib=$1 map=$2 header=$3
profile=$(dirname "$header")/utofu_profile.h
ext=$(dirname "$header")/utofu_ext.h
tmp=$(mktemp -d) || exit 2
trap 'rm -rf "$tmp"' EXIT
failed=0

fail() {
    echo "FAIL: $*"
    failed=1
}

# same WHAT A B: the two sorted lists of names are equal
same() {
    if ! diff "$2" "$3" >"$tmp/diff"; then
        fail "$1"
        sed -n 's/^\([<>]\)/    \1/p' "$tmp/diff"
    fi
}

declared() {
    sed -n 's/^\(int\|void\) \{1,\}\(p\{0,1\}utofu_[a-z0-9_]*\)(.*/\2/p' "$1"
}

sed -e 's/#.*//' "$map" | sed -n '/global:/,/local:\|}/s/^ *\([A-Za-z0-9_]*\);.*/\1/p' | sort >"$tmp/map"
declared "$header" | sort >"$tmp/header"
declared "$profile" | sort >"$tmp/profile"
declared "$ext" | sort >"$tmp/ext"
nm -D --defined-only "$lib" >"$tmp/nm" || fail "nm cannot read $lib"
awk '$2 != "A" { print $3 }' "$tmp/nm" | sed 's/@.*//' | sort >"$tmp/lib"

[ -s "$tmp/map" ] || fail "$map lists no names"
[ -z "$(uniq -d "$tmp/map")" ] || fail "$map lists a name twice"
grep -q '[*?]' "$tmp/map" && fail "$map has a pattern among the global names"
same "library (<) and version script (>) differ" "$tmp/lib" "$tmp/map"
sort "$tmp/header" "$tmp/profile" "$tmp/ext" >"$tmp/headers"
same "headers (<) and version script (>) differ" "$tmp/headers" "$tmp/map"
sed 's/^/p/' "$tmp/header" | sort >"$tmp/twins"
same "twins of utofu.h (<) and utofu_profile.h (>) differ" "$tmp/twins" "$tmp/profile"

# name, address, type and version of each symbol
awk '$2 != "A" { split($3, n, /@+/); print n[1], $1, $2, n[2] }' "$tmp/nm" >"$tmp/symbols"
awk -v ext="$(tr '\n' ' ' <"$tmp/ext")" '
    BEGIN { split(ext, names, " "); for (i in names) is_ext[names[i]] = 1 }
    { address[$1] = $2; type[$1] = $3; version[$1] = $4 }
    END {
        for (name in type) {
            if (name in is_ext) {
                if (type[name] != "T" || version[name] != "UTOFU_1.1")
                    print name " is " type[name] " of " version[name] ", not T of UTOFU_1.1"
                continue
            }
            if (version[name] != "UTOFU_1.0")
                print name " has the version \"" version[name] "\""
            if (name ~ /^putofu_/ && type[name] != "T")
                print name " has the type " type[name] ", not T"
            if (name ~ /^utofu_/ && type[name] != "W")
                print name " has the type " type[name] ", not W: it is no weak alias"
            if (name ~ /^utofu_/ && address[name] != address["p" name])
                print name " is another function than p" name
        }
    }' "$tmp/symbols" | sort >"$tmp/bad"
if [ -s "$tmp/bad" ]; then
    fail "symbols of $lib"
    sed 's/^/    /' "$tmp/bad"
fi

soname=$(readelf -d "$lib" | sed -n 's/.*(SONAME).*\[\(.*\)\].*/\1/p')
[ "$soname" = libtofucom.so.1 ] || fail "the soname is \"$soname\", not libtofucom.so.1"

[ $failed -eq 0 ] && echo "ok: $(wc -l <"$tmp/map") names"
exit $failed
