package stream

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestJudge(t *testing.T) {
	const slack = 100
	guess, proof := pacing{slack: slack}, pacing{exact: true, guard: 10}
	paced, polled := pacing{slack: slack, least: 50, pace: 50}, pacing{slack: slack, polls: true, least: 50, pace: 500}
	for name, c := range map[string]struct {
		pacing pacing
		view   view
		want   verdict
		until  uint64
	}{
		"nothing is held":          {guess, view{now: 1000, earliest: never}, idle, 0},
		"its slack has passed":     {guess, view{now: 1000, watermark: 900, earliest: 900}, due, 0},
		"its slack has not passed": {guess, view{now: 1000, watermark: 900, earliest: 901}, early, 1001},
		"it has passed since":      {guess, view{now: 1000, watermark: 890, earliest: 891}, outdated, 0},

		"a barrier covers it":             {proof, view{now: 1000, watermark: 900, earliest: 900}, due, 0},
		"no barrier would cover it":       {proof, view{now: 1000, watermark: 900, earliest: 989}, early, 1001},
		"a barrier would":                 {proof, view{now: 1000, watermark: 900, earliest: 988}, unproven, 0},
		"a flush asks for a barrier":      {proof, view{now: 1000, watermark: 900, earliest: 988, flushing: true}, unproven, 0},
		"the last round was just now":     {paced, view{now: 1000, watermark: 900, earliest: 1, lastRound: 951}, early, 1001},
		"it was long ago":                 {paced, view{now: 1000, watermark: 900, earliest: 1, lastRound: 950}, due, 0},
		"a poll is not due":               {polled, view{now: 1000, watermark: 900, earliest: 1, lastRound: 501}, filled, 1001},
		"a poll is not due, rings fill":   {polled, view{now: 1000, watermark: 900, earliest: 1, lastRound: 950, filling: true}, due, 0},
		"a poll is not due, and a flush":  {polled, view{now: 1000, watermark: 900, earliest: 1, lastRound: 999, flushing: true}, due, 0},
		"a flush waits for the watermark": {polled, view{now: 1000, watermark: 900, earliest: 950, lastRound: 999, flushing: true}, early, 1050},
	} {
		t.Run(name, func(t *testing.T) {
			got, until := c.pacing.judge(c.view)
			require.Equal(t, c.want, got)
			require.Equal(t, c.until, until)
		})
	}
}

// The round stays due even if a ring that was filling up has been relieved since.
func TestFillingIsRememberedInAWait(t *testing.T) {
	p := pacing{slack: 100, polls: true, least: 50, pace: 500}
	v := view{now: 1000, watermark: 900, earliest: 1, lastRound: 990, filling: true}
	got, until := p.judge(v)
	require.Equal(t, filled, got)
	require.EqualValues(t, 1040, until)
	v.now, v.filling = until, false
	got, _ = p.judge(v)
	require.Equal(t, due, got)
}

func TestPaceOfOptions(t *testing.T) {
	armed := func() bool { return true }
	for want, o := range map[pacing]struct {
		Options
		Wakeup
	}{
		{}:                                  {},
		{slack: 2e6, least: 1e6, pace: 1e6}: {Options: Options{Slack: 2 * time.Millisecond}},
		{slack: 1e9, least: 5e6, pace: 5e6}: {Options: Options{Slack: time.Second}},
		{slack: 2e6, polls: true, least: 1e6, pace: 100e6}: {Options: Options{Slack: 2 * time.Millisecond}, Wakeup: Wakeup{Poll: 100 * time.Millisecond}},
		{slack: 4e6, least: 2e6, pace: 2e6}:                {Options: Options{Slack: 4 * time.Millisecond}, Wakeup: Wakeup{Poll: 100 * time.Millisecond, Armed: armed}},
	} {
		require.Equal(t, want, newFakeWoken(t, 1, o.Options, o.Wakeup).newPacing())
	}
}

// While nothing is held, rings wake the stream. It looks only at those that cannot.
func TestNextLook(t *testing.T) {
	for name, c := range map[string]struct {
		opts    Options
		wakeup  Wakeup
		armed   bool
		bell    bool
		suspect bool
		want    time.Duration
	}{
		"no doorbell":               {},
		"no doorbell, suspect":      {suspect: true, want: AskAfter},
		"polling, suspect":          {wakeup: Wakeup{Poll: time.Millisecond}, suspect: true, want: time.Millisecond},
		"armed":                     {wakeup: Wakeup{Poll: time.Millisecond}, bell: true, armed: true},
		"armed, suspect":            {wakeup: Wakeup{Poll: time.Millisecond}, bell: true, armed: true, suspect: true, want: AskAfter},
		"disarmed":                  {wakeup: Wakeup{Poll: time.Second}, bell: true, want: leastPoll},
		"disarmed, slack":           {opts: Options{Slack: 20 * time.Millisecond}, wakeup: Wakeup{Poll: time.Second}, bell: true, want: 20 * time.Millisecond},
		"disarmed, more slack":      {opts: Options{Slack: time.Minute}, wakeup: Wakeup{Poll: time.Second}, bell: true, want: time.Second},
		"disarmed, suspect, slower": {opts: Options{Slack: time.Minute}, wakeup: Wakeup{Poll: time.Second}, bell: true, suspect: true, want: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			if c.bell {
				c.wakeup.Armed = func() bool { return c.armed }
			}
			f := newFakeWoken(t, 2, c.opts, c.wakeup)
			f.merger.rings[1].losses.account.Suspect = c.suspect
			f.merger.rings[1].losses.head = 1 // so that it has moved
			f.StartWait()
			step, err := f.Step()
			require.NoError(t, err)
			require.Equal(t, Step{Do: Await, For: c.want}, step)
		})
	}
}
