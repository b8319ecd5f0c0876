#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Every function of the header is documented, in the form that the header describes: a title and text,
# each parameter by name and in order, return codes that exist, flags that exist, threads, the section
# of the manual.
#
# usage: check_docs.sh HEADER [NAMES]     (NAMES: the header with the codes, where that is another)
set -u
export LC_ALL=C

if [ $# -lt 1 ] || [ $# -gt 2 ]; then
    echo "usage: $0 HEADER [NAMES]" >&2
    exit 2
fi

awk '
function bad(what) {
    print FILENAME ":" FNR ": " name "(): " what
    failed = 1
}

# One tag with its continuation lines, as "@tag rest".
function tag(text,    word, rest, n, i, list, code) {
    n = index(text, " ")
    word = n ? substr(text, 1, n - 1) : text
    rest = n ? substr(text, n + 1) : ""
    if (word == "@param") {
        if (rest !~ /^[a-z0-9_]+ +\[(in|out|in,out)\] [^ ]/)
            bad("@param without name, [direction] and meaning: " rest)
        sub(/ .*/, "", rest)
        param[++params] = rest
    } else if (word == "@return") {
        code = rest
        sub(/:.*/, "", code)
        if (rest !~ /^[A-Za-z_]+: [^ ]/)
            bad("@return without code and condition: " rest)
        if (code in returned)
            bad("@return names " code " twice")
        returned[code] = 1
        returns++
        if (code != "none" && !(code in defined))
            bad("@return names " code ", which the header does not define")
    } else if (word == "@flags") {
        flags++
        n = split(rest, list, " ")
        if (n == 0)
            bad("@flags names nothing")
        for (i = 1; i <= n; i++)
            if (!(list[i] == "none" && n == 1) && !(list[i] in group) && !(list[i] in defined))
                bad("@flags names " list[i] ", which the header does not define")
    } else if (word == "@threads") {
        threads++
        if (rest != "any" && rest != "vcq_hdl" && rest != "vbg_id")
            bad("@threads is not any, vcq_hdl or vbg_id: " rest)
        thread_class = rest
    } else if (word == "@manual") {
        manual++
        if (rest !~ /^([0-9]+\.[0-9.]+[0-9]|none)/)
            bad("@manual names no section: " rest)
    } else {
        bad("unknown tag " word)
    }
}

# The comment is in line[1..lines], the declaration in decl.
function check(    i, n, p, want, wants, text, title, current) {
    params = returns = flags = threads = manual = text = title = wants = 0
    thread_class = current = ""
    delete param
    delete returned
    delete want
    functions++
    if (!lines) {
        bad("no comment")
        return
    }
    for (i = 1; i <= lines; i++) {
        if (line[i] ~ /^@/ || (current != "" && line[i] !~ /^ +[^ ]/)) {
            if (current != "")
                tag(current)
            current = ""
        }
        if (line[i] ~ /^@/) {
            current = line[i]
        } else if (current != "") {
            p = line[i]
            sub(/^ +/, " ", p)
            current = current p
        } else if (!title && line[i] != "") {
            title = 1
            if (index(line[i], name " - ") != 1)
                bad("the title is not \"" name " - purpose\"")
        } else if (line[i] != "") {
            text = 1
        }
    }
    if (current != "")
        tag(current)
    if (!text)
        bad("no text")

    p = decl
    sub(/^[^(]*\(/, "", p)
    sub(/\)( +UTOFU_MUST_USE)?;.*/, "", p)
    n = split(p, want, ",")
    for (i = 1; i <= n; i++) {
        p = want[i]
        gsub(/\[[0-9]*\]/, "", p)
        sub(/ +$/, "", p)
        sub(/.*[ *]/, "", p)
        if (p == "void")
            continue
        wants++
        if (param[i] != p)
            bad("parameter " i " is " p ", and the comment has \"" param[i] "\" there")
        if (p == "flags" && !flags)
            bad("no @flags")
        if (p == "flags")
            flags = 0
        if (p == "vcq_hdl" && i == 1 && thread_class == "vbg_id")
            bad("@threads is vbg_id")
    }
    if (params > wants)
        bad("the comment has more parameters than the function")
    if (flags)
        bad("@flags without a parameter flags, or twice")
    if (!returns)
        bad("no @return")
    if (decl ~ /^int/ && !("UTOFU_SUCCESS" in returned))
        bad("no @return for UTOFU_SUCCESS")
    if (decl ~ /^int/ && "none" in returned)
        bad("@return none, but it returns int")
    if (threads != 1)
        bad("@threads is there " threads " times, not once")
    if (manual != 1)
        bad("@manual is there " manual " times, not once")
}

# First pass: the names that exist.
NR == FNR {
    if (match($0, /^#define UTOFU_[A-Z0-9_]+/))
        defined[substr($0, 9, RLENGTH - 8)] = 1
    if (match($0, /^ +UTOFU_[A-Z0-9_]+ = /)) {
        split($0, word, " ")
        defined[word[1]] = 1
    }
    if (match($0, /^ \* @flaggroup [a-z-]+:/))
        group[substr($0, 15, RLENGTH - 15)] = 1
    next
}

# Second pass: comments and the declarations behind them.
/^\/\*\*$/ { in_comment = 1; lines = 0; next }
in_comment && /^ \*\/$/ { in_comment = 0; fresh = 1; next }
in_comment { line[++lines] = substr($0, 4); next }
/^(int|void) +p?utofu_[a-z0-9_]+\(/ {
    if (!fresh)
        lines = 0
    decl = ""
    in_decl = 1
    name = $0
    sub(/^(int|void) +/, "", name)
    sub(/\(.*/, "", name)
}
in_decl {
    decl = decl $0
    if (/;/) {
        in_decl = 0
        check()
    }
}
{ fresh = 0 }

END {
    if (functions < least) {
        print FILENAME ": " functions + 0 " functions, and there should be " least " or more"
        failed = 1
    }
    if (!failed)
        print "ok: " functions " functions"
    exit failed
}' "${2:-$1}" least="$([ $# -eq 2 ] && echo 1 || echo 66)" "$1"
