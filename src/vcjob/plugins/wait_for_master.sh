#!/bin/sh
# Waits until the master of a PyTorch job accepts connections.
#
# In:   VCJOB_WAIT_HOST, VCJOB_WAIT_PORT, VCJOB_WAIT_TIMEOUT (seconds); RANK=0 means: this is the master.
# Exit: 0 the master answers, 91 the time is over, 92 nothing here can probe a port, 93 bad settings.
#
# Runs in images of others: POSIX sh, no file is written, any user. It travels as the text of `sh -c`, so it
# must hold no double dollar sign (the kubelet would halve it) and no text that spans lines (comments and
# indentation are cut off on the way).

# Messages of the tools are read below, so they must be in English.
export LC_ALL=C
trap 'exit 143' TERM
trap 'exit 130' INT

cause=
host=${VCJOB_WAIT_HOST:-} port=${VCJOB_WAIT_PORT:-} seconds=${VCJOB_WAIT_TIMEOUT:-}

newline=$(printf '\n.')
newline=${newline%.}

say() { printf 'wait-for-master: %s\n' "$*"; }
fail() {
    code=$1
    shift
    say "error: $*" >&2
    exit "$code"
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

pause() {
    if [ $((deadline - now)) -lt 100 ] || [ $((now - start)) -lt 1000 ]; then
        nap=0.15
    elif [ $((now - start)) -lt 6000 ]; then
        nap=0.3
    else
        nap=1
    fi
    sleep "$nap" 2>/dev/null || sleep 1
}

# ---- one probe, never longer than its limit, with its words in $words and its exit code in $code ----

probe() {
    case $method in
    'nc -z') bounded 5 "$tool" -z $verbose -w 1 "$host" "$port" ;;
    /dev/tcp*) bounded 2 "$tool" -c ': <"/dev/tcp/$0/$1"' "$host" "$port" ;;
    python3) bounded 5 "$tool" -ISc "$python" "$host" "$port" ;;
    esac
}

python='import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 1).close()'

bounded() {
    limit=$1
    shift
    now
    # In tenths of a second, and not beyond the end of the wait.
    left=$(((deadline - now + 9) / 10)) limit=$((limit * 10)) cut=
    [ "$limit" -le "$left" ] || cut=1 limit=$left
    [ "$limit" -ge 1 ] || limit=1
    if [ -n "$tenths" ]; then
        limit=$((limit / 10)).$((limit % 10))
    else
        limit=$(((limit + 9) / 10))
    fi
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

# Why the last probe failed, in $cause and $advice.
explain() {
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
                cause=${words##*"$newline"}
            elif [ $((now - began)) -ge 90 ]; then
                cause='no answer'
            else
                cause=refused
            fi
            ;;
        esac
        ;;
    esac
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
    timeout 9 sh -c : 2>/dev/null || timeout=
    # Not every timeout, and not every sleep, knows parts of a second.
    if [ -n "$timeout" ]; then
        timeout 9.9 sh -c : 2>/dev/null || tenths=
    else
        sleep 0.1 2>/dev/null || tenths=
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
sleep 0 2>/dev/null || fail 92 'no sleep here: put coreutils or busybox into the image, or choose another by --wait-master-image'
choose || fail 92 "no way to probe $host:$port here: put nc (with -z), bash or python3 into the image, or choose another by --wait-master-image"
while [ "$code" -ne 0 ]; do
    explain
    [ "$now" -lt "$deadline" ] || fail 91 "$host:$port did not answer within $seconds s: $cause (by $method); $advice"
    if [ "$now" -ge "$report" ]; then
        report=$((report + 1000))
        say "still waiting after $(((now - start) / 100)) s: $cause (by $method)"
    fi
    pause
    probe
done
now
say "$host:$port answers after $(((now - start) / 100)).$(((now - start) % 100 / 10)) s (by $method)"
