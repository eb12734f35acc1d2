// Draws the panels of a dashboard with Grafana's own components, of what a Prometheus answers to their queries:
//
//   panels.html#PROMETHEUS FROM TO STEP       an address, seconds since 1970, and seconds between points
//
// esbuild bundles it with the dashboard and @grafana/ui: see picture_grafana in scripts/pictures.sh. Grafana itself does what is spelled
// out here: it fills in the variables, asks the data source, turns the answer into data frames, and lays the panels out.
import React from 'react';
import { createRoot } from 'react-dom/client';
import { applyFieldOverrides, createTheme, dateTime, FieldType, LoadingState, ThemeContext, toDataFrame } from '@grafana/data';
import { GlobalStyles, PanelChrome, TimeSeries } from '@grafana/ui';
import '@fontsource/inter/latin-400.css';
import '@fontsource/inter/latin-500.css';
import dashboard from 'dashboard';

const theme = createTheme({ colors: { mode: 'dark' } });
const [prometheus, ...numbers] = decodeURIComponent(location.hash.slice(1)).split(' ');
const [from, to, step] = numbers.map(Number);
const column = 37, row = 26, gap = 8; // pixels of a unit of gridPos, and between panels

async function ask(path, parameters) {
	const response = await fetch(`${prometheus}/api/v1/${path}?${new URLSearchParams(parameters)}`);
	const answer = await response.json();
	if (answer.status !== 'success') throw new Error(`${path} ${JSON.stringify(parameters)}: ${answer.error}`);
	return answer.data;
}

// series asks a target's query, and returns a data frame per series.
async function series(panel, target, variables) {
	const query = target.expr.replace(/\$(\w+)/g, (all, name) => {
		if (!(name in variables)) throw new Error(`${panel.title}: there is no variable ${all}`);
		return variables[name];
	});
	const { result } = await ask('query_range', { query, start: from, end: to, step });
	return result.map(({ metric, values }) => toDataFrame({
		refId: target.refId,
		fields: [
			{ name: 'Time', type: FieldType.time, values: values.map(([t]) => t * 1000), config: { interval: step * 1000 } },
			{ name: 'Value', type: FieldType.number, values: values.map(([, v]) => Number(v)), labels: metric,
				config: { displayNameFromDS: target.legendFormat.replace(/\{\{\s*(\w+)\s*\}\}/g, (_, label) => metric[label] || '').trim() } },
		],
	}));
}

async function framesOf(panel, variables) {
	const data = (await Promise.all(panel.targets.map(target => series(panel, target, variables)))).flat();
	if (data.length === 0) throw new Error(`${panel.title}: no data`);
	const defaults = { color: { mode: 'palette-classic' }, ...panel.fieldConfig.defaults }; // Grafana's own default is that colour mode
	for (const { fields: [, value] } of data) Object.assign(value.config, structuredClone(defaults));
	return applyFieldOverrides({ data, fieldConfig: { defaults: {}, overrides: [] }, theme, timeZone: 'utc', replaceVariables: text => text });
}

function Panel({ panel, frames }) {
	const { x, y, w, h } = panel.gridPos;
	const timeRange = { from: dateTime(from * 1000), to: dateTime(to * 1000) };
	return <div style={{ position: 'absolute', left: gap + x * column, top: gap + y * row }}>
		<PanelChrome title={panel.title} width={w * column - gap} height={h * row - gap} loadingState={LoadingState.Done}>
			{(width, height) => <TimeSeries frames={frames} width={width} height={height} legend={{ calcs: [], ...panel.options.legend }}
				timeRange={timeRange} timeZone="utc" options={panel.options} structureRev={1}>{() => null}</TimeSeries>}
		</PanelChrome>
	</div>;
}

async function main() {
	const [rings] = (await ask('query', { query: 'ringfold_rings', time: to })).result;
	const variables = { instance: rings.metric.instance, __rate_interval: `${4 * step}s` }; // Grafana's at this step
	const panels = await Promise.all(dashboard.panels.map(async panel => [panel, await framesOf(panel, variables)]));
	await Promise.all(['400', '500'].map(weight => document.fonts.load(`${weight} 12px Inter`)));
	createRoot(document.body).render(<ThemeContext.Provider value={theme}>
		<GlobalStyles />
		{panels.map(([panel, frames]) => <Panel key={panel.id} panel={panel} frames={frames} />)}
	</ThemeContext.Provider>);
}

main().catch(error => { document.body.textContent = document.title = `${error.stack}`; });
