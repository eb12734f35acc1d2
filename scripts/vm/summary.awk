# Condenses what a guest prints (scripts/vm/init): one line for each program, failed and skipped tests with the lines that say why,
# and the result of a soak. Ends with status 0 only if the guest got to its end and all in it passed.
# To the file `result` it writes: passed failed skipped soak-exact soak-slack seconds

BEGIN { exact = slack = "-"; status = 1; began = clock() }

function clock(   now) { # not every awk has systime
	"date +%s" | getline now
	close("date +%s")
	return now + 0
}

function show(text) { print text; fflush() }

# conserved tells whether the soak accounts for all outputs, as far as the kernel tells.
function conserved(json) { return json ~ /^\{"mode":"[a-z-]*","conserved":true/ }

# matched returns what a pattern matches, less a prefix of so many characters.
function matched(json, pattern, prefix) {
	return match(json, pattern) ? substr(json, RSTART + prefix, RLENGTH - prefix) : "?"
}

# number returns a field of the soak's JSON.
function number(json, field) {
	if (!match(json, "\"" field "\":[0-9]+")) return "?"
	return substr(json, RSTART + length(field) + 3, RLENGTH - length(field) - 3)
}

sub(/^.*### KERNEL/, "vm: Linux") { show($0); next } # behind what the firmware prints
sub(/^### BROKEN/, "vm: KVM is broken here:") { show($0); broken = 1; exit }
/^### BEGIN/ { name = $3; sub(/:$/, "", name); pass = fail = skip = 0; split("", message); trace = 0; running = 1; next }
/^### END/ {
	ran++
	running = 0
	if (name !~ /^soak/) {
		show(sprintf("%-4s %-10s %4d passed %3d failed %3d skipped %5ds", $4 == 0 ? "ok" : "FAIL", name, pass, fail, skip, $5))
	} else {
		show(sprintf("%-4s %-10s %s %5ds", $4 == 0 ? "ok" : "FAIL", name, soak, $5))
	}
	passed += pass; failed += fail; skipped += skip
	if ($4 != 0 && fail == 0) failed++
	soak = ""
	next
}
/^### DMESG/ { dmesg = 1; next }
/^### DONE/ { done = 1; dmesg = running = 0; if ($3 == 0) status = 0; next }
dmesg { show("dmesg: " $0); next }
!running { if (/panic|Oops|BUG|RIP:|not syncing|qemu/) show($0); next }

# verdict shows one of a test, behind the messages of that test.
function verdict(   test) {
	test = $3
	show($0)
	if (test in message) show(message[test])
	delete message[test]
}

# A test's messages come before its verdict.
/^=== / { test = $3; next }
/^ *--- PASS/ { pass++; delete message[$3]; next }
/^ *--- FAIL/ { fail++; verdict(); next }
/^ *--- SKIP/ { skip++; verdict(); next }
/^    / && !trace { if (length(message[test]) < 4000) message[test] = message[test] (message[test] ? "\n" : "") $0; next }
/^\{"mode"/ {
	soak = sprintf("late %s, out of order %s, attempted %s, delivered %s, dropped %s, lost %s%s", number($0, "late"), number($0, "out_of_order"),
		number($0, "attempted"), number($0, "delivered"), number($0, "dropped"), number($0, "lost"), conserved($0) ? ", accounted for" : "")
	delay = matched($0, "\"latency_us\":[{]\"p50\":[0-9.]+,\"p99\":[0-9]+", 20)
	sub(/([.][0-9]+)?,"p99":/, " / ", delay) # whole us
	provider = matched($0, "\"provider\":\"[^\"]*", 12)
	soak = soak ", delay " delay " us" (provider ? " by " provider : "")
	if (name == "soak-exact") exact = sprintf("%s/%s/%s", number($0, "late"), number($0, "out_of_order"), \
		conserved($0) ? "yes" : "no")
	else slack = number($0, "late")
	next
}
/no tests to run/ { show($0); next }
name == "conformance" && /^passed / { pass++; next }
name == "conformance" && /^failed / { fail++; show($0); next }
name == "conformance" && /^cannot / { skip++; show($0); next }
name == "conformance" && /^conformance:/ { show($0); next }
name ~ /^bench/ { show($0); next }
/^panic:|^fatal error:|^SIG|VIOLATION|^soak:|WARNING: DATA RACE/ { trace = 60 }
trace { trace--; show($0) }

END {
	if (broken) exit 1
	if (done && !ran) { show("FAIL nothing ran"); failed++; status = 1 }
	if (!done) { show("FAIL the guest ended early" (name == "" ? "" : ", in " name)); failed++ }
	printf "%d %d %d %s %s %d\n", passed, failed, skipped, exact, slack, clock() - began >result
	exit status
}
