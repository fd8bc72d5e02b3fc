#!/bin/sh
# Prints answers that the Seatbelt model of sandboxc rests on and that no other machine can give.
#
#   sh macos.sh
#
# It changes nothing outside one scratch directory of its own, which it removes, and needs no rights. Each line is
# `name = answer`, and behind the # what the model assumes, or "either" where what is emitted does not depend on it.
# Please report lines that differ. Not run by the project itself: it has no Mac.
set -u

if [ ! -x /usr/bin/sandbox-exec ]; then
    echo "sandbox-exec is not here; this script is for macOS" >&2
    exit 2
fi

scratch=$(mktemp -d "${TMPDIR:-/tmp}/sandboxc-confirm.XXXXXX") || exit 2
top=$(cd "$scratch" && pwd -P) || exit 2
trap 'rm -rf "$top"' EXIT
trap 'exit 130' INT TERM
mkdir -p "$top/d/sub" "$top/Case" "$top/m/keep" "$top/out"
for file in d/f d/sub/f plain Case/f m/keep/f out/f; do echo x >"$top/$file"; done

say() { printf '%s = %s  # model: %s\n' "$1" "$2" "$3"; }

# boxed PROFILE COMMAND...: runs the command under a profile; prints yes, no, or "profile refused".
boxed() {
    profile=$1
    shift
    printf '%s\n' "$profile" >"$top/profile.sb"
    if ! /usr/bin/sandbox-exec -f "$top/profile.sb" -D "TOP=$top" /usr/bin/true 2>/dev/null; then
        echo "profile refused"
    elif /usr/bin/sandbox-exec -f "$top/profile.sb" -D "TOP=$top" "$@" >/dev/null 2>&1; then
        echo yes
    else
        echo no
    fi
}

say macos "$(sw_vers -productVersion 2>/dev/null)" "13 or later"
say scratch-volume "$(df "$top" | tail -1 | awk '{print $1}')" "the data volume"

open='(version 1)(allow default)'

# 1. Names: case and normalisation.
say folds-case "$([ -e "$top/cASE/F" ] && echo yes || echo no)" "yes, unless the volume was made case-sensitive"
say subpath-folds-case "$(boxed "$open(deny file-read* (subpath (string-append (param \"TOP\") \"/cASE\")))" cat "$top/Case/f")" "no (the deny holds) where the volume folds case"
say regex-folds-case "$(boxed "$open(deny file-read* (regex #\"/cASE/f\$\"))" cat "$top/Case/f")" "yes (the deny is not seen); classes are emitted"
composed=$(printf 'e\314\201') # e and a combining acute accent
single=$(printf '\303\251')    # the one character
echo x >"$top/$single"
say folds-normalisation "$([ -e "$top/$composed" ] && echo yes || echo no)" "yes"
say literal-folds-normalisation "$(boxed "$open(deny file-read* (literal (string-append (param \"TOP\") \"/$composed\")))" cat "$top/$single")" "either; both spellings are emitted where they differ"

# 2. Filters on files.
say subpath-of-a-file "$(boxed "$open(deny file-read* (subpath (string-append (param \"TOP\") \"/plain\")))" cat "$top/plain")" "either; literal and subpath are emitted together"
say linked-spelling "$(boxed "$open(deny file-read* (subpath \"/tmp\"))" ls /private/tmp)" "yes (a filter spelt through a link is dead)"

# 3. The length of a string literal.
for length in 255 256 1000 1024 4096; do
    text=$(printf "%${length}s" '' | tr ' ' a)
    say "literal-of-$length" "$(boxed "$open(deny file-read* (literal \"/$text\"))" /usr/bin/true)" "yes up to 254; longer ones are joined"
done
parts=''
count=0
while [ "$count" -lt 16 ]; do
    parts="$parts \"$(printf '%200s' '' | tr ' ' a)\""
    count=$((count + 1))
done
say joined-3200 "$(boxed "$open(deny file-read* (literal (string-append \"/\" $parts)))" /usr/bin/true)" yes

# 4. Operations with roots of their own.
write='(version 1)(deny default)(allow process*)(allow sysctl-read)(allow mach-lookup)(allow file-read* file-map-executable (subpath "/"))'
say link-is-allowed-by-default "$(boxed "$write(allow file-write* (subpath (string-append (param \"TOP\") \"/out\")))" ln "$top/d/f" "$top/out/hard")" "either; file-link is denied by name"
rm -f "$top/out/hard"
say link-denied-by-name "$(boxed "$open(deny file-link (subpath (string-append (param \"TOP\") \"/d\")))" ln "$top/d/f" "$top/out/hard")" no
rm -f "$top/out/hard"
say clone-denied-by-name "$(boxed "$open(deny file-clone (subpath (string-append (param \"TOP\") \"/d\")))" cp -c "$top/d/f" "$top/out/clone")" "either; reading is denied where it must be"
rm -f "$top/out/clone"

# 5. Which rule decides.
leaf='(allow file-read-data (subpath "/"))(deny file-read* (literal (string-append (param "TOP") "/d/f")))'
say leaf-beats-wildcard "$(boxed "(version 1)(deny default)(allow process* sysctl-read mach-lookup file-read-metadata file-map-executable)$leaf" cat "$top/d/f")" "yes (file-read-data is decided first)"
say bare-allow-loses "$(boxed "(version 1)(allow default)(deny file-read* (subpath (string-append (param \"TOP\") \"/d\")))(allow file-read*)" cat "$top/d/f")" "no (the filtered deny decides)"
say later-filtered-wins "$(boxed "$open(deny file-read* (subpath (string-append (param \"TOP\") \"/d\")))(allow file-read* (subpath (string-append (param \"TOP\") \"/d/sub\")))" cat "$top/d/sub/f")" yes
say missing-parameter-is-refused "$(boxed "$open(deny file-read* (subpath (param \"NOT_GIVEN\")))" /usr/bin/true)" "profile refused"

# 6. Renaming what lies above a rule.
say rename-above-a-deny "$(boxed "$open(deny file-read* file-write* (subpath (string-append (param \"TOP\") \"/m/keep\")))" mv "$top/m" "$top/m2")" "yes (so ancestors are pinned)"
[ -d "$top/m2" ] && mv "$top/m2" "$top/m"
say rename-of-a-pinned-directory "$(boxed "$open(deny file-write-unlink file-write-create (literal (string-append (param \"TOP\") \"/m\")))" mv "$top/m" "$top/m2")" no
[ -d "$top/m2" ] && mv "$top/m2" "$top/m"

# 7. Language: what the profile reader knows.
say string-primitives "$(boxed "$open(define (below a) (substring (string-append a \"/\") 0 (string-length a)))(deny file-read* (literal (below \"/nowhere\")))" /usr/bin/true)" yes
say error-stops "$(boxed "$open(if (string=? (param \"TOP\") \"\") (allow default) (error \"no\"))" /usr/bin/true)" "profile refused"
say nested "$(boxed "$open" /usr/bin/sandbox-exec -p "$open" /usr/bin/true)" no
