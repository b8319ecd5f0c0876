#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# usage: lint_test.sh SOURCE
# scripts/lint on a small project: each check passes correct files, finds an error, and reports
# a missing tool.
set -u

source=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
tree=$folder/tree
mkdir -p "$tree"/{scripts,src,provider,tools,include} "$folder/bin"
cp "$source"/scripts/lint "$tree/scripts/"
echo '# none' >"$tree/.long-functions"
echo '# none' >"$tree/.one-word-names"
echo '# none' >"$tree/.foreign-declarations"
cp "$source"/.{clang-format,codespellrc,cppcheck-suppressions,flake8} "$tree/"
checks=0 failures=0
# shellcheck source=tests/harness/checks.sh
. "$source/tests/harness/checks.sh"

spdx='SPDX-License-Identifier: Apache-2.0'
write_good() {
    printf '/* %s */\nint main(void)\n{\n    return 0;\n}\n' "$spdx" >"$tree/src/a.c"
    printf '#!/bin/sh\n# %s\necho "$1"\n' "$spdx" >"$tree/scripts/a"
    printf '#!/usr/bin/env python3\n# %s\nprint(1)\n' "$spdx" >"$tree/scripts/b"
}
lint="$tree/scripts/lint"

check help 0 '^Usage: scripts/lint' 1 "$lint" --help
check bad_option 2 'no option or check --nonsense' 1 "$lint" --nonsense
write_good

# finds CHECK TOOL COMMAND: correct files pass; after COMMAND the check fails
finds() {
    local name=$1 tool=$2
    write_good
    if ! "$lint" "$name" 2>&1 | grep -q skipped; then
        check "$name good" 0 "^lint: $name: ok" 1 "$lint" "$name"
        eval "$3"
        check "$name bad" 1 "^lint: $name: FAILED" 1 "$lint" "$name"
        write_good
    else
        echo "skipped: $tool is not installed"
    fi
    [ "$tool" = - ] || check "$name missing" 0 "^lint: $name: skipped: .* not installed" 1 env PATH="$folder/bin" "$lint" "$name"
}
ln -s "$(command -v env)" "$(command -v git)" "$folder/bin/"
ln -s "$(python3 -c 'import sys; print(sys.executable)')" "$folder/bin/python3"
finds format clang-format-14 'sed -i "s/^    return/  return/" "$tree/src/a.c"'
finds spelling codespell 'echo "/* th""eer */" >>"$tree/src/a.c"'
finds cppcheck cppcheck 'sed -i "s/return 0/int a[2]; return a[2]/" "$tree/src/a.c"'
finds shell shellcheck 'echo "cd \$unquoted && exit \$(ls)" >>"$tree/scripts/a"'
finds python flake8 'echo "import os" >>"$tree/scripts/b"'
finds length - 'sed -i "4s/.*/$(yes "    x();" | head -n 61 | tr "\n" "@")/; 4s/@/\n/g" "$tree/src/a.c"'
# an exception is for the number of lines that it names, not for a function shorter by now
long() { { printf '/* %s */\nint main(void)\n{\n' "$spdx" && yes '    x();' | head -n "$1" && echo '}'; } >"$tree/src/a.c"; }
if command -v python3 >/dev/null; then
    long 60
    check sixty_lines_pass 0 '^lint: length: ok' 1 "$lint" length
    long 70
    echo '70 src/a.c main' >"$tree/.long-functions"
    check an_exception_passes 0 '^lint: length: ok' 1 "$lint" length
    long 71
    check it_may_not_grow 1 'main has 71 lines' 1 "$lint" length
    long 60
    check it_has_to_go 1 'no more than 60 lines' 1 "$lint" length
    echo '70 src/b.c main' >"$tree/.long-functions"
    check a_file_that_is_gone 1 'there is no src/b.c' 1 "$lint" length
    echo '# none' >"$tree/.long-functions"
fi
# in src: two static functions with names of one word, and one function without a prefix
write_c() { printf '/* %s */\n\nstatic int read_it(void)\n{\n}\n\nstatic int\n%s(void)\n{\n}\n\nvoid %s_do(void)\n{\n}\n' "$spdx" "$1" "$2" >"$tree/src/a.c"; }
finds names - 'write_c ask ut'
finds prefixes - 'write_c ask_it vp'
finds descriptors - 'printf "int ut_a(void)\n{\n    return ut_fd_open_ours(socket(1, 2, 3)) + dup(4);\n}\n" >>"$tree/src/a.c"'
if command -v python3 >/dev/null; then
    write_c ask ut
    check where_it_is 1 'ask: a static function is named verb and object; 0 of this name are allowed in src: src/a.c:9' 1 "$lint" names
    echo '1 src ask' >"$tree/.one-word-names"
    check a_listed_name_passes 0 '^lint: names: ok' 1 "$lint" names
    cp "$tree/src/a.c" "$tree/src/b.c"
    check no_more_of_them 1 'src/a.c:9, src/b.c:9' 1 "$lint" names
    rm "$tree/src/b.c"
    write_c ask_it ut
    check the_list_shrinks 1 '0 functions of src are named ask, not 1' 1 "$lint" names
    "$lint" --fix names >/dev/null
    check and_has_shrunk 0 '^lint: names: ok' 1 "$lint" names
    check right_prefix 0 '^lint: prefixes: ok' 1 "$lint" prefixes
    mkdir "$tree/provider/new"
    mv "$tree/src/a.c" "$tree/provider/new/"
    check a_folder_without_prefix 1 'has none for this folder' 1 "$lint" prefixes
    rm -r "$tree/provider/new"
fi
# a function of a.c that b.h declares, and not a.h
declare_c() { printf '/* %s */\n\nvoid ut_do(void)\n{\n}\n' "$spdx" >"$tree/src/a.c" && printf '/* %s */\nvoid ut_do(void);\n' "$spdx" >"$tree/src/$1.h"; }
finds headers - 'declare_c b'
if command -v python3 >/dev/null; then
    declare_c b
    check which_header 1 'src/a.c:4: ut_do is declared in src/b.h' 1 "$lint" headers
    echo '1 src/a.c' >"$tree/.foreign-declarations"
    check a_listed_file_passes 0 '^lint: headers: ok' 1 "$lint" headers
    mv "$tree/src/b.h" "$tree/src/a.h"
    check the_list_of_headers_shrinks 1 '0 functions of src/a.c are declared elsewhere, not 1' 1 "$lint" headers
    "$lint" --fix headers >/dev/null
    check and_own_header_passes 0 '^lint: headers: ok' 1 "$lint" headers
    rm "$tree/src/a.h"
fi
finds locale - 'echo "int x(void) { return printf(\"%.3f\", 1.0); }" >>"$tree/src/a.c"'
if command -v python3 >/dev/null; then
    # uses FILE LINE PATTERN: found there; with the pattern "ok", nothing is
    uses() {
        write_good
        printf '%s\n' "$2" >>"$tree/$1"
        if [ "$3" = ok ]; then
            check "$2" 0 '^lint: locale: ok' 1 "$lint" locale
        else
            check "$2" 1 "^$1:[0-9]+: $3" 1 "$lint" locale
        fi
        rm -f "$tree/tools/a.c"
    }
    uses src/a.c 'int y = sprintf(b, "100 %% of %lu", n % e); /* %f and isdigit() */' ok
    uses src/a.c 'int y = isspace(c);' 'isspace\(\) depends'
    uses src/a.c 'int y = strcasecmp(a, b);' 'strcasecmp\(\) depends'
    uses src/a.c 'double y = strtod(a, NULL);' 'strtod\(\) in a library'
    uses src/a.c 'int y = sscanf(a, "%*s %lf", &d);' '%lf prints'
    uses src/a.c 'char *y = setlocale(LC_ALL, "");' 'setlocale\(\) in a library'
    uses tools/a.c "/* $spdx */ int y = printf(\"%.3f\", strtod(a, NULL));" ok
    uses tools/a.c "/* $spdx */ char *y = setlocale(LC_ALL, \"\");" 'setlocale\(\) in a program'
    uses scripts/a "awk '{ printf \"%.3f\", \$1 }'" 'computes with numbers'
    uses scripts/a "LC_ALL=C awk '{ printf \"%.3f\", \$1 }'" ok
    uses scripts/a 'echo $EPOCHREALTIME' 'may have a comma'
    write_good
fi
finds licence - 'sed -i 1d "$tree/src/a.c"'

# another version formats differently
printf '#!/bin/sh\necho "clang-format version 18.1.3"\n' >"$folder/bin/clang-format"
chmod +x "$folder/bin/clang-format"
check other_version 0 'skipped: clang-format 14 .* format differently' 1 env PATH="$folder/bin" "$lint" format
if command -v clang-format-14 >/dev/null; then
    sed -i 's/^    return/  return/' "$tree/src/a.c"
    check fix 0 '^lint: format: ok' 1 "$lint" --fix format
    check fixed 0 '^lint: format: ok' 1 "$lint" format
fi

# in git: only files that are not ignored, and all of them
git -C "$tree" init -q 2>/dev/null && {
    echo /ignored.c >"$tree/.gitignore"
    echo 'int  x;' >"$tree/ignored.c"
    check git_ignored 0 '^lint: licence: ok' 1 "$lint" licence
    cp "$tree/ignored.c" "$tree/seen.c"
    check git_untracked 1 'seen.c: no line with SPDX' 1 "$lint" licence
}
printf 'lint: %d checks, %d failures\n' "$checks" "$failures"
[ "$failures" = 0 ]
