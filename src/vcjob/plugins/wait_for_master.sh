#!/bin/sh
# Waits until the master of a PyTorch job accepts connections.
#
# In:   VCJOB_WAIT_HOST, VCJOB_WAIT_PORT, VCJOB_WAIT_TIMEOUT (seconds); RANK=0 means: this is the master.
# Exit: 0 the master answers, 91 the time is over, 92 nothing here can probe a port, 93 bad settings.
#
# Runs in images of others: POSIX sh, no file is written, any user. It travels as the text of `sh -c`, so it
# must hold no double dollar sign (the kubelet would halve it), and a text that spans lines must be a program:
# comments and indentation are cut off on the way.

# Messages of the tools are read below, so they must be in English.
export LC_ALL=C
trap 'leave 143' TERM
trap 'leave 130' INT

cause= looking=
host=${VCJOB_WAIT_HOST:-} port=${VCJOB_WAIT_PORT:-} seconds=${VCJOB_WAIT_TIMEOUT:-}

say() { printf 'wait-for-master: %s\n' "$*"; }
fail() {
    code=$1
    shift
    say "error: $*" >&2
    exit "$code"
}
leave() {
    [ -z "$looking" ] || kill "$looking" 2>/dev/null
    exit "$1"
}

# ---- time, in hundredths of a second ----

# The uptime of the machine does not jump when somebody sets the clock.
now() {
    if [ -r /proc/uptime ] && read -r up _ </proc/uptime; then
        # 1xx-100 and not xx, for 08 would be read as an octal number.
        now=$((${up%.*} * 100 + 1${up#*.} - 100))
    else
        now=$(($(date +%s) * 100))
    fi
}

# How long a command may take, in $limit: $1 tenths of a second, and not beyond the end of the wait ($cut).
within() {
    left=$(((deadline - now + 9) / 10)) limit=$1 cut=
    [ "$limit" -le "$left" ] || cut=1 limit=$left
    [ "$limit" -ge 1 ] || limit=1
    if [ -n "$tenths" ]; then
        limit=$((limit / 10)).$((limit % 10))
    else
        limit=$(((limit + 9) / 10))
    fi
}

# ---- one probe, never longer than its limit, with its words in $words and its exit code in $code ----

probe() {
    case $method in
    'nc -z') bounded 50 "$tool" -z $verbose -w 1 "$host" "$port" ;;
    /dev/tcp*) bounded 20 "$tool" -c ': <"/dev/tcp/$0/$1"' "$host" "$port" ;;
    python3) bounded 50 "$tool" -ISc "$python" "$host" "$port" ;;
    esac
}

python='import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 1).close()'

bounded() {
    now
    within "$1"
    shift
    began=$now
    # `exit`, lest the shell lets the tool take its place and then announces how it ended.
    words=$(
        exec 2>&1 </dev/null
        if [ -n "$timeout" ]; then "$timeout" "$limit" "$@"; else watched "$@"; fi
        exit "$?"
    )
    code=$?
}

watched() {
    "$@" &
    probing=$!
    (
        sleep "$limit"
        kill "$probing"
    ) >/dev/null 2>&1 &
    watching=$!
    wait "$probing"
    code=$?
    kill "$watching" 2>/dev/null
    return "$code"
}

# Did the tool itself not work, whatever the network is like?
unusable() {
    [ "$code" -ne 0 ] || return 1
    case $code in
    124 | 137 | 143) return 1 ;;
    esac
    [ "$code" -lt 126 ] || return 0
    case $method:$words in
    nc*"nvalid option"* | nc*"nrecognized option"* | nc*"llegal option"* | nc*"nknown option"* | nc*[Uu]sage:*) return 0 ;;
    /dev*"o such file"* | /dev*onexistent* | /dev*"not found"*) return 0 ;;
    python3*"No module"*) return 0 ;;
    esac
    return 1
}

# Why the last probe failed, in $cause.
explain() {
    by=$method
    now
    case $cut$code in
    # The end of the wait cut this probe off, so the one before it knows more.
    1124 | 1137 | 1143) [ -z "$cause" ] || return 0 ;;
    esac
    text=$words
    while :; do
        case $text in
        # The host's own name must not be taken for a word of the tool.
        *"$host"*) text=${text%%"$host"*}${text#*"$host"} ;;
        *) break ;;
        esac
    done
    case $text in
    *efused*) cause=refused ;;
    *"esolv"* | *"not known"* | *"nknown host"* | *"ad address"* | *"lookup failed"* | *gaierror* | *getaddrinfo* | *"name resolution"*)
        cause='the name does not resolve'
        ;;
    *"imed out"* | *TIMEOUT* | *"in progress"*) cause='no answer' ;;
    *)
        case $code in
        124 | 137 | 143) cause='no answer' ;;
        *)
            if [ -n "$text" ]; then
                newline=$(printf '\n.')
                cause=${words##*"${newline%.}"}
            elif [ $((now - began)) -ge 90 ]; then
                cause='no answer'
            else
                cause=refused
            fi
            ;;
        esac
        ;;
    esac
}

advise() {
    case $cause in
    refused) advice='its pod is there, but nothing listens: does the training run, and on MASTER_PORT?' ;;
    'the name'*) advice='is the pod of the master running, and is the headless Service of the job there?' ;;
    *) advice='is the pod of the master running, and does no network policy or firewall stand between?' ;;
    esac
}

# ---- which way to probe works in this image ----

# A first probe by each in turn; the first that is a probe at all, successful or not, is kept.
choose() {
    timeout=timeout tenths=1
    command -v sleep >/dev/null 2>&1 || fail 92 'no sleep here: put coreutils or busybox into the image, or choose another by --wait-master-image'
    # Not every timeout, and not every sleep, knows parts of a second.
    if ! timeout 9.9 sh -c : 2>/dev/null; then
        tenths=
        if ! timeout 9 sh -c : 2>/dev/null; then
            timeout=
            ! sleep 0.1 2>/dev/null || tenths=1
        fi
    fi
    IFS=:
    for folder in '' $PATH; do
        unset IFS
        # Some shells prefer an nc of their own, so the real ones are called by their path.
        tool=${folder:+$folder/}nc
        command -v "$tool" >/dev/null 2>&1 || continue
        method='nc -z'
        # The traditional netcat looks up names backwards when it is to be verbose.
        verbose=-v
        case $("$tool" -h 2>&1 </dev/null) in
        *'[v1.10'*) verbose= ;;
        esac
        probe
        unusable || return 0
    done
    unset IFS
    for tool in sh bash; do
        command -v "$tool" >/dev/null 2>&1 || continue
        method=/dev/tcp${timeout:+" under timeout"}
        probe
        unusable || return 0
    done
    if command -v python3 >/dev/null 2>&1; then
        tool=python3
        method=python3
        probe
        unusable || return 0
    fi
    return 1
}

# ---- between two probes ----

# A probe that tells why it fails costs several processes. In between, a lookout looks often and at little cost,
# and ends as soon as the port is open. bash connects by itself, so that a look costs no process at all; with nc
# it costs one. Both pause by reading from a pipe into which nobody writes: their own standard input, opened for
# writing, too. Exit codes of bash: 81 refused, 82 no such name, 83 something else.

# Host, port, seconds between two looks, looks.
in_bash='
    why() {
        words=$({ true <"/dev/tcp/$0/$1"; } 2>&1) && exit 0
        case ${words//"$0"/} in
        *efused*) return 81 ;;
        *" not known"* | *esol*) return 82 ;;
        *"o such file"*) exit 9 ;;
        esac
        return 83
    }
    [ "${BASH_VERSINFO:-0}" -gt 3 ] && exec 0<>/proc/self/fd/0 || exit 9
    why "$1"
    for ((looks = 0; looks < $3; looks++)); do
        read -rt "$2" _
        ! true <"/dev/tcp/$0/$1" || exit 0
    done
    why "$1"
'
by_nc='
    exec 0<>/proc/self/fd/0 || exit 9
    until "$3" -z -w 1 "$0" "$1" </dev/null; do
        read -rt "$2" _
        # This shell cannot wait by itself.
        [ "$?" -ne 2 ] || sleep "$2" || sleep 1
    done
'
in_python='exec("import socket, sys, time\nwhile True:\n try: socket.create_connection((sys.argv[1], int(sys.argv[2])), 1).close(); break\n except OSError: time.sleep(float(sys.argv[3]))")'

# Until the next report is due or the port is open; $code and $cause then say how things stand.
look_out() {
    period=$((report - now))
    [ "$report" -le "$deadline" ] || period=$((deadline - now))
    case $method:$cause in
    python3:*) lookout=python3 ;;
    nc*:'no answer') lookout=nc ;;
    # Where packets get lost bash would hang in one connection until it is ended.
    *:'no answer') lookout= ;;
    nc*) lookout=${bash:-nc} ;;
    *) lookout=bash ;;
    esac
    # Four looks a second for ten seconds. From then on, the longer the wait, the less a moment matters; and with nc each
    # look is a process. Never fewer than those of a loop with a pause of two seconds.
    share=3 most=99
    [ "$lookout" != nc ] || share=10 most=200
    every=25 age=$((now - start))
    [ "$age" -lt 1000 ] || every=$((age * share / 100))
    [ "$every" -ge 25 ] || every=25
    [ "$every" -le "$most" ] || every=$most
    # All workers ask the same name server.
    [ "$cause$every" != 'the name does not resolve25' ] || every=50
    pause=$((every / 100)).$((every / 10 % 10))$((every % 10))
    # bash counts its looks, and may be a little late for a report, but not for the end: to begin anew costs as much as ten.
    looks=$((period / every)) late=0
    [ "$report" -gt "$deadline" ] || looks=$((looks + 1)) late=10
    [ "$looks" -ge 1 ] || looks=1
    [ "$lookout" = bash ] || late=0
    within $(((period + 9) / 10 + late))
    case $reliable$lookout in
    1bash) looking_by "${bash:-sh}" -c "$in_bash" "$host" "$port" "$pause" "$looks" ;;
    1nc) looking_by sh -c "$by_nc" "$host" "$port" "$pause" "$tool" ;;
    1python3) looking_by python3 -ISc "$in_python" "$host" "$port" "$pause" ;;
    *)
        sleep 0.3 2>/dev/null || sleep 1
        saw=124
        ;;
    esac
    now
    left=$((deadline - now))
    case $saw in
    0) code=0 ;;
    81) cause=refused ;;
    82) cause='the name does not resolve' ;;
    83 | 124 | 137 | 143) ;;
    # It does not work here.
    *) reliable= ;;
    esac
    case $saw in
    0 | 81 | 82)
        by=$method
        [ "$lookout$method" != 'bashnc -z' ] || by=/dev/tcp
        ;;
    *)
        # Not every timeout ends a probe before a whole second is over, so there is none in the last moment.
        if [ "$left" -ge 50 ]; then
            probe
            explain
        elif [ "$left" -gt 0 ]; then
            sleep 0.5 2>/dev/null || sleep 1
            now
        fi
        ;;
    esac
}

looking_by() {
    : | ${timeout:+"$timeout" "$limit"} "$@" >/dev/null 2>&1 &
    looking=$! watching=
    if [ -z "$timeout" ]; then
        (
            sleep "$limit"
            kill "$looking"
        ) >/dev/null 2>&1 &
        watching=$!
    fi
    wait "$looking" 2>/dev/null
    saw=$?
    [ -z "$watching" ] || kill "$watching" 2>/dev/null
    looking=
}

# ---- the wait ----

if [ "${RANK:-}" = 0 ]; then
    say 'this pod is the master: nothing to wait for'
    exit 0
fi
[ -n "$host" ] || fail 93 'VCJOB_WAIT_HOST is empty'
case $port in
'' | *[!0-9]*) fail 93 "VCJOB_WAIT_PORT is no port: '$port'" ;;
esac
case $seconds in
'' | *[!0-9]* | 0) fail 93 "VCJOB_WAIT_TIMEOUT is no number of seconds: '$seconds'" ;;
esac

now
start=$now deadline=$((now + seconds * 100)) report=$((now + 1000))
# Seconds of the clock are coarse: rather a second too long than one too short.
[ -r /proc/uptime ] || deadline=$((deadline + 100))
say "waiting for $host:$port, at most $seconds s"
choose || fail 92 "no way to probe $host:$port here: put nc (with -z), bash or python3 into the image, or choose another by --wait-master-image"
bash= reliable=1
! command -v bash >/dev/null 2>&1 || bash=bash
explain
while [ "$code" -ne 0 ]; do
    if [ "$now" -ge "$deadline" ]; then
        advise
        fail 91 "$host:$port did not answer within $seconds s: $cause (by $by); $advice"
    fi
    if [ "$now" -ge "$report" ]; then
        say "still waiting after $(((now - start) / 100)) s: $cause (by $by)"
        # After ten seconds, after thirty, then every thirty.
        report=$((report - start < 3000 ? start + 3000 : report + 3000))
    fi
    look_out
done
say "$host:$port answers after $(((now - start) / 100)).$(((now - start) % 100 / 10)) s (by $by)"
