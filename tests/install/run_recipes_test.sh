#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The workflows of examples/ci-project/ci, word for word, in a Debian that debootstrap has just made: GitHub's as an
# ordinary user with sudo, GitLab's as root. They pass, and with each error of the project they fail and name its line.
# The packages come from where apt of this machine takes them. Needs root and debootstrap.
#
# usage: run_recipes_test.sh SOURCE [SUITE-OF-DEBIAN]
set -u
source=$1 suite=${2:-bookworm}
# shellcheck source=tests/install/own_root.sh
. "$(dirname "$(readlink -f "$0")")/own_root.sh"
enter_own_root "$@"
make_own_root "$source" "$suite" cmake gcc libc6-dev pkg-config python3-yaml

# recipe STATUS USER NAME FILE [REPLACEMENT]...: runs FILE, in a folder NAME
recipe() {
    local status=$1 user=$2 name=$3 file=$4 got
    shift 4
    in_root "$user" python3 /src/tests/install/run_workflow.py "/src/examples/ci-project/ci/$file" /src "/var/tmp/$name" "$@" \
        >"$work/out" 2>&1
    got=$?
    [ $got = "$status" ] || fail "$file ($name): status $got, not $status"
}
line() { grep -nF -- "$1" "$source/examples/ci-project/sum.c" | head -1 | cut -d: -f1; }

recipe 0 runner right shared-memory.yml
says '^22 runs, 0 failed$'
says '^mpich, 2 nodes, seed 2, check: ok'
says '^artefact report: [0-9]+ files$'
says '^## Passed: '
recipe 1 runner source shared-memory.yml --installed 'build/sum=build/sum source'
says "^::error file=.*sum.c,line=$(line 'CALL(utofu_put(vcq')::source-written"
recipe 1 runner order shared-memory.yml --installed 'build/sum=build/sum order'
says "^::error file=sum.c,line=$(line '__LINE__')::exit status 1"
recipe 1 runner hang shared-memory.yml --installed 'build/sum=build/sum hang' '--dump=--dump --timeout 5 --failures 1'
says '^ *\| utofu: dump: \[rank 0\] vcq'
says "^::error file=.*sum.c,line=$(($(line '!= round)') + 1))::no end within 5 s" # the stack, by eu-stack
recipe 0 root gitlab gitlab.yml 'https://OWNER.invalid/utofu-verbs.git=file:///src'
says '^22 runs, 0 failed$'
recipe 1 root gitlab-source gitlab.yml --installed 'build/sum=build/sum source'
says "source-written: .* at .*sum.c:$(line 'CALL(utofu_put(vcq')"
if ! modinfo rdma_rxe >/dev/null 2>&1 && [ -z "$(ls /sys/class/infiniband 2>/dev/null)" ]; then
    recipe 1 runner soft-roce soft-roce.yml # says what to do instead
    says '^setup-utofu: no Soft-RoCE with this kernel: use --vm'
fi
# an emulated machine takes ten times as long
recipe 0 root machine virtual-machine.yml '--seeds 20=--seeds 2'
says '^4 runs, 0 failed$'
recipe 1 root machine-source virtual-machine.yml '--seeds 20=--seeds 2' 'build/sum=build/sum source'
says "source-written: .* at .*sum.c:$(line 'CALL(utofu_put(vcq')"
[ $failures = 0 ] && echo ok
[ $failures = 0 ]
