// Opens a trace in the Perfetto UI, in a headless Chromium, and writes what one sees as a PNG:
//
//   node screenshot.js DIRECTORY TRACE PNG FROM TO SLICE
//
// DIRECTORY has a build of the UI; FROM and TO are seconds of the trace to zoom to; SLICE is the id of one to select, whose arrows are drawn.
'use strict';
const fs = require('fs');
const http = require('http');
const path = require('path');
const { spawn } = require('child_process');

const [directory, trace, png, from, to, slice] = process.argv.slice(2);
const top = 46; // of what is below the search box
const size = { width: 980, height: 560 };
const page = `<!doctype html><meta charset="utf-8"><style>:root { --track-shell-width: 200px !important } html, body { margin: 0; height: 100% } #timeline_main { position: relative; height: 100% }</style>
<div id="timeline_data_source" hidden></div><div id="timeline_main"></div>
<script>document.getElementById('timeline_data_source').textContent = location.origin + '/trace'</script><script src="frontend_bundle.js"></script>`;
const types = { '.js': 'text/javascript', '.css': 'text/css', '.wasm': 'application/wasm', '.woff2': 'font/woff2', '.html': 'text/html' };

const server = http.createServer((request, response) => {
	const name = new URL(request.url, 'http://localhost').pathname;
	if (name === '/') { response.setHeader('content-type', 'text/html'); response.end(page); return; }
	const file = name === '/trace' ? trace : path.join(directory, path.normalize(name));
	response.setHeader('content-type', types[path.extname(file)] || 'application/octet-stream');
	fs.createReadStream(file).on('error', () => { response.statusCode = 404; response.end(); }).pipe(response);
});

async function main() {
	await new Promise(resolve => server.listen(0, '127.0.0.1', resolve));
	const chromium = spawn('chromium-headless-shell', ['--no-sandbox', '--disable-gpu', '--hide-scrollbars', '--remote-debugging-pipe', 'about:blank'],
		{ stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe'] });
	chromium.on('error', error => { console.error(`screenshot.js: ${error.message}`); process.exit(1); });
	// The DevTools protocol over a pipe: JSON, each message followed by a NUL.
	const waiting = new Map();
	let id = 0, rest = '';
	chromium.stdio[4].on('data', data => {
		const messages = (rest + data).split('\0');
		rest = messages.pop();
		for (const message of messages.map(JSON.parse)) {
			if (message.method === 'Runtime.consoleAPICalled' && process.env.DEBUG) console.error(JSON.stringify(message.params.args.map(a => a.value || a.description)));
			if (!waiting.has(message.id)) continue;
			const [resolve, reject] = waiting.get(message.id);
			waiting.delete(message.id);
			if (message.error) reject(new Error(message.error.message)); else resolve(message.result);
		}
	});
	const call = (method, params, sessionId) => new Promise((resolve, reject) => {
		waiting.set(++id, [resolve, reject]);
		chromium.stdio[3].write(JSON.stringify({ id, method, params, sessionId }) + '\0');
	});
	const { targetId } = await call('Target.createTarget', { url: 'about:blank' });
	const { sessionId } = await call('Target.attachToTarget', { targetId, flatten: true });
	const evaluate = async expression => {
		const { result, exceptionDetails } = await call('Runtime.evaluate', { expression, returnByValue: true, awaitPromise: true }, sessionId);
		if (exceptionDetails) throw new Error(`${exceptionDetails.text} ${exceptionDetails.exception?.description}`);
		return result.value;
	};
	await call('Runtime.enable', {}, sessionId);
	await call('Emulation.setDeviceMetricsOverride', { ...size, deviceScaleFactor: 2, mobile: false }, sessionId);
	await call('Page.navigate', { url: `http://127.0.0.1:${server.address().port}/` }, sessionId);
	const until = async expression => { while (!await evaluate(expression)) await new Promise(resolve => setTimeout(resolve, 200)); };

	await until(`!!(window.globals && Object.values(globals.state.engines)[0]?.ready && Object.keys(globals.state.trackGroups).length)`);
	await until(`Object.values(globals.state.trackGroups).length > 0 && globals.numQueuedQueries === 0`);
	await evaluate(`for (const group of Object.values(globals.state.trackGroups)) if (group.collapsed) globals.dispatch(Actions.toggleTrackGroupCollapsed({ trackGroupId: group.id }))`);
	await evaluate(`(() => { const start = globals.state.traceTime.startSec, visible = globals.frontendLocalState;
		visible.updateVisibleTime(new visible.visibleWindowTime.constructor(start + ${Number(from)}, start + ${Number(to)})); })()`);
	await evaluate(`globals.dispatch(Actions.selectChromeSlice({ id: ${Number(slice)}, trackId: Object.values(globals.state.tracks).find(track => track.name.startsWith('CPU ')).id, table: 'internal' }))`);
	await until(`globals.connectedFlows.length > 0`);
	await new Promise(resolve => setTimeout(resolve, 3000));
	await until(`globals.numQueuedQueries === 0`);
	await new Promise(resolve => setTimeout(resolve, 3000));
	// This build leaves out the tracks' names.
	await evaluate(`(() => { const names = Object.values(globals.state.trackGroups).flatMap(group => group.tracks.map(id => globals.state.tracks[id].name))
			.filter(name => !name.endsWith(' summary')).map(name => name.replace(/^(CPU [0-9]+) [0-9]+$/, '$1'));
		document.querySelectorAll('.track-shell').forEach((shell, i) => { const name = document.createElement('span'); name.textContent = names[i];
			name.style.cssText = 'padding-left: 12px; font: 13px Roboto Condensed'; shell.append(name); }); })()`);
	const { data } = await call('Page.captureScreenshot', { format: 'png', clip: { ...size, x: 0, y: top, height: size.height - top, scale: 1 } }, sessionId);
	fs.writeFileSync(png, Buffer.from(data, 'base64'));
	chromium.kill();
}

main().then(() => process.exit(0)).catch(error => { console.error('screenshot.js:', error.message); process.exit(1); });
