#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# completion_test.sh FOLDER TOOL=COMMAND...: the completion functions of FOLDER, called as bash calls them, know every
# option that the tools take, and what follows. zsh reads its own, where it is installed.

folder=$1
shift
failures=0
checks=0

fail() {
    echo "FAIL: $*"
    failures=$((failures + 1))
}

# complete_words EXPECTED WORD...: the last word is being typed; EXPECTED is a regular expression for all proposals
complete_words() {
    local expected=$1 function
    shift
    COMP_WORDS=("$@")
    COMP_CWORD=$(($# - 1))
    COMPREPLY=()
    function=$(complete -p "$1" | sed 's/.*-F \([^ ]*\).*/\1/')
    "$function" "$1" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
    checks=$((checks + 1))
    [[ "${COMPREPLY[*]}" =~ ^($expected)$ ]] || fail "$*: proposes '${COMPREPLY[*]}', not '$expected'"
}

for tool in "$@"; do
    name=${tool%%=*}
    # shellcheck disable=SC1090 # the completion of this tool
    . "$folder/$name" || fail "$name: bash cannot read the completion"
    complete_words '.*--help.*' "$name" -
    proposed=" ${COMPREPLY[*]} "
    # each option of --help, and no other word
    for option in $("${tool#*=}" --help | sed -n 's/^ \{2,8\}\(-[^ ].*\)/\1/p' | sed 's/  .*//; s/\[=.*//' |
        grep -o -- '\(^\| \)--\?[A-Za-z][A-Za-z-]*'); do
        checks=$((checks + 1))
        [[ $proposed == *" $option "* ]] || fail "$name: $option is not proposed:$proposed"
    done
    if command -v zsh >/dev/null; then
        zsh -n "$folder/_$name" || fail "$name: zsh cannot read the completion"
    fi
done
complete_words '--bind' utofurun --b
complete_words 'core none' utofurun --bind ''
complete_words '' utofurun -n ''
cd "$folder" || exit 1
complete_words 'utofurun' utofurun -n 2 --bind none /bin/ls utofuru
complete_words 'put-lat' utofu-perf put-la
complete_words 'utofurun openmpi mpich srun all' utofu-test --launcher ''
complete_words 'tofud infiniband' utofu-model -m ''
complete_words 'butterfly star' utofu-perf --circuit ''
complete_words '--check --check-list' utofu-info --che
complete_words '--report' utofu-info --rep
echo "completion: $checks checks, $failures failures"
exit $((failures > 0))
