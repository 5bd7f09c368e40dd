#!/bin/sh
# Proves that the todo feature was built: check.sh REPOSITORY [REF]
#
# REPOSITORY is the git repository that the feature was submitted for, REF its feature branch (default: ralph/todo). What
# was merged there must pass its own tests and a session that no task has seen, with one commit for each task.
set -eu

if [ "$#" -lt 1 ] || [ "$#" -gt 2 ]; then
    echo "usage: $0 REPOSITORY [REF]" >&2
    exit 2
fi
repository=$1
ref=${2:-ralph/todo}
tasks=15

fail() {
    echo "check: $1" >&2
    exit 1
}

git -C "$repository" rev-parse --quiet --verify "$ref^{commit}" >/dev/null ||
    fail "$repository has no branch $ref; was the feature submitted for this repository, and is it Complete?"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/todo"
git -C "$repository" archive "$ref" | tar -x -C "$work/todo"
cd "$work/todo"

landed=$(git -C "$repository" log --format='%(trailers:key=Ralph-Task,valueonly)' "$ref" | sed '/^$/d')
[ "$(printf '%s\n' "$landed" | wc -l)" -eq "$tasks" ] || fail "$ref should hold $tasks commits with a Ralph-Task trailer: $landed"
[ -z "$(printf '%s\n' "$landed" | sort | uniq -d)" ] || fail "a task landed twice on $ref: $landed"

modules=$(find tests -name 'test_*.py' | wc -l)
[ "$modules" -eq $((tasks + 1)) ] || fail "$ref should have $((tasks + 1)) test modules and has $modules"
./run-tests 2>"$work/tests.log" || fail "the tests of $ref fail: $(cat "$work/tests.log")"

todo() {
    python3 -B -m todo --file "$work/list.txt" --today 2031-12-31 "$@"
}
{
    todo add 'buy candles #party due:today'
    todo add 'sleep'
    todo add 'write cards !!! #party due:tomorrow'
    todo add 'order the cake ! #party due:2031-12-30'
    todo done 2
    todo list --tag party
    todo list --at-least 2
    todo list --open --tag none
    todo stats
    todo done 5 || echo "refused with status $?"
} >"$work/session" 2>&1
diff -u - "$work/session" <<'END' || fail "the program of $ref says something else than it should (above: - expected, + said)"
1 added: buy candles #party due:today
2 added: sleep
3 added: write cards !!! #party due:tomorrow
4 added: order the cake ! #party due:2031-12-30
2 done: sleep
4  [ ]  order the cake ! #party due:2031-12-30  2031-12-30 (overdue)
1  [ ]  buy candles #party due:today            2031-12-31
3  [ ]  write cards !!! #party due:tomorrow     2032-01-01
3  [ ]  write cards !!! #party due:tomorrow  2032-01-01
1 done, 3 open, 1 overdue
todo: there is no item 5; the list has 1 to 4
refused with status 1
END

echo "check: $ref holds $tasks tasks, $(sed -n 's/^Ran \([0-9]*\) tests.*/\1/p' "$work/tests.log") tests pass, the program works"
