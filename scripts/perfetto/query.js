// Asks Perfetto's own trace processor about a trace:
//
//   node query.js DIRECTORY TRACE SQL...
//
// DIRECTORY has engine_bundle.js and trace_processor.wasm of a build of the Perfetto UI. Prints an array of rows for each query, in a line.
//
// The bundle is made for a web worker. It gets a MessagePort, and speaks TraceProcessorRpcStream over it (protos/perfetto/trace_processor/
// trace_processor.proto in Perfetto's source), of which the few fields that matter here are spelled out below.
'use strict';
const fs = require('fs');
const path = require('path');
const vm = require('vm');

const [directory, trace, ...queries] = process.argv.slice(2);
if (queries.length === 0) {
	console.error('usage: query.js DIRECTORY TRACE SQL...');
	process.exit(2);
}

// Requests: TraceProcessorRpc{seq = 1, request = 2, append_trace_data = 101, query_args = 103}, and what answers them.
const APPEND = 1, FINALIZE = 2, QUERY = 3; // TraceProcessorMethod: TPM_APPEND_TRACE_DATA, ...
let seq = 0;

function varint(n) {
	const out = [];
	for (; n > 127; n = Math.floor(n / 128)) out.push(n % 128 | 128);
	return [...out, n];
}

const number = (field, n) => Buffer.from([...varint(field * 8), ...varint(n)]);
const bytes = (field, b) => Buffer.concat([Buffer.from([...varint(field * 8 + 2), ...varint(b.length)]), b]);
const request = (method, ...arguments_) => bytes(1, Buffer.concat([number(1, ++seq), number(2, method), ...arguments_])); // TraceProcessorRpcStream.msg

// fields takes a message apart: [field, number or bytes]...
function fields(b) {
	const found = [];
	let at = 0;
	const read = () => {
		let n = 0n, shift = 0n;
		for (;; shift += 7n) {
			const byte = b[at++];
			n |= BigInt(byte & 127) << shift;
			if (byte < 128) return n;
		}
	};
	while (at < b.length) {
		const tag = Number(read());
		switch (tag % 8) {
		case 0: found.push([tag >> 3, Number(BigInt.asIntN(64, read()))]); break;
		case 1: found.push([tag >> 3, b.readDoubleLE(at)]); at += 8; break;
		case 2: { const size = Number(read()); found.push([tag >> 3, b.subarray(at, at + size)]); at += size; break; }
		default: throw new Error(`wire type ${tag % 8}`);
		}
	}
	return found;
}

const all = (message, field) => message.filter(([f]) => f === field).map(([, value]) => value);

// packed takes a packed field apart.
function packed(b, double) {
	const list = [];
	if (double) {
		for (let i = 0; i < b.length; i += 8) list.push(b.readDoubleLE(i));
		return list;
	}
	for (let at = 0, n = 0n, shift = 0n; at < b.length; at++) {
		n |= BigInt(b[at] & 127) << shift;
		shift += 7n;
		if (b[at] < 128) { list.push(Number(BigInt.asIntN(64, n))); n = shift = 0n; }
	}
	return list;
}

// rows reads QueryResult{column_names = 1, error = 2, batch = 3: {cells = 1, varints = 2, doubles = 3, blobs = 4, strings = 5}}.
function rows(results) {
	const names = [], cells = [];
	for (const result of results.map(fields)) {
		const [error] = all(result, 2);
		if (error && error.length) throw new Error(error.toString());
		names.push(...all(result, 1).map(String));
		for (const batch of all(result, 3).map(fields)) {
			const of = (field, double) => all(batch, field).flatMap(b => Buffer.isBuffer(b) ? packed(b, double) : [b]);
			const numbers = of(2), doubles = of(3, true);
			const strings = Buffer.concat(all(batch, 5)).toString().split('\0');
			for (const type of of(1)) // CELL_NULL = 1, VARINT, FLOAT64, STRING
				cells.push(type === 2 ? numbers.shift() : type === 3 ? doubles.shift() : type === 4 ? strings.shift() : null);
		}
	}
	const table = [];
	for (let i = 0; i < cells.length; i += names.length) table.push(Object.fromEntries(names.map((name, j) => [name, cells[i + j]])));
	return table;
}

async function main() {
	const worker = { location: { href: 'file://' + directory + '/' } };
	const port = { postMessage() {} };
	const quiet = { ...console, log() {}, warn() {} };
	const wasm = fs.readFileSync(path.join(directory, 'trace_processor.wasm'));
	class XMLHttpRequest { // with which a worker loads its module, before it goes on
		open() {}
		send() { this.response = wasm; }
	}
	const context = vm.createContext({ self: worker, location: worker.location, importScripts() {}, console: quiet, XMLHttpRequest, TextDecoder, performance, setTimeout });
	const Bytes = vm.runInContext('Uint8Array', context); // not ours: another realm
	vm.runInContext(fs.readFileSync(path.join(directory, 'engine_bundle.js'), 'utf8'), context);
	worker.onmessage({ data: { enginePort: port } });
	await new Promise(setImmediate); // for what the module has promised itself

	// The replies of one request come while it is made.
	let replies = [];
	port.postMessage = data => replies.push(...all(fields(Buffer.from(data)), 1).map(fields)); // TraceProcessorRpcStream again
	const ask = message => {
		replies = [];
		port.onmessage({ data: new Bytes(message) });
		for (const reply of replies) for (const error of all(reply, 5)) throw new Error(error.toString());
		return replies;
	};
	let data = fs.readFileSync(trace);
	if (trace.endsWith('.gz')) data = require('zlib').gunzipSync(data);
	const chunk = 1 << 20;
	for (let at = 0; at < data.length; at += chunk) ask(request(APPEND, bytes(101, data.subarray(at, at + chunk))));
	ask(request(FINALIZE));
	for (const query of queries) console.log(JSON.stringify(rows(ask(request(QUERY, bytes(103, bytes(1, Buffer.from(query))))).flatMap(reply => all(reply, 203)))));
}

main().catch(error => { console.error('query.js:', error.message); process.exit(1); });
