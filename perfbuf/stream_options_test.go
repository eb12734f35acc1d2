package perfbuf

import (
	"testing"
	"time"

	"github.com/ringfold/ringfold/internal/grace"
	"github.com/stretchr/testify/require"
)

func TestEffectiveStreamOptions(t *testing.T) {
	const ms = time.Millisecond
	type o = StreamOptions
	half := func(bytes int) Spill { return Spill{Bytes: bytes, Above: 50, Until: 25} }
	for name, c := range map[string]struct {
		in, want StreamOptions
	}{
		"defaults":           {in: o{}, want: o{BarrierInterval: ms, Spill: half(16 << 20)}},
		"slack":              {in: o{Order: Slack(2 * ms)}, want: o{Order: Slack(2 * ms), BarrierInterval: ms, Spill: half(16 << 20)}},
		"no slack":           {in: o{Order: Slack(0)}, want: o{Order: Slack(0), BarrierInterval: ms, Spill: half(16 << 20)}},
		"interval":           {in: o{BarrierInterval: time.Second}, want: o{BarrierInterval: time.Second, Spill: half(16 << 20)}},
		"no interval":        {in: o{BarrierInterval: -time.Second}, want: o{BarrierInterval: -1, Spill: half(16 << 20)}},
		"budget":             {in: o{Spill: Spill{Bytes: 7}}, want: o{BarrierInterval: ms, Spill: half(7)}},
		"no budget":          {in: o{Spill: Spill{Bytes: -7}}, want: o{BarrierInterval: ms, Spill: half(-1)}},
		"until half of that": {in: o{Spill: Spill{Bytes: 1, Above: 81}}, want: o{BarrierInterval: ms, Spill: Spill{1, 81, 40}}},
		"percentages":        {in: o{Spill: Spill{1, 100, 100}}, want: o{BarrierInterval: ms, Spill: Spill{1, 100, 100}}},
		"until, alone":       {in: o{Spill: Spill{Bytes: 1, Until: 50}}, want: o{BarrierInterval: ms, Spill: Spill{1, 50, 50}}},
		"barriers, drop":     {in: o{Barriers: BindMount, DropLate: true}, want: o{Barriers: BindMount, DropLate: true, BarrierInterval: ms, Spill: half(16 << 20)}},
		"flushes":            {in: o{FlushEvery: ms}, want: o{FlushEvery: ms, BarrierInterval: ms, Spill: half(16 << 20)}},
		"slack and flushes": {in: o{Order: Slack(ms), FlushEvery: ms, BarrierInterval: time.Second},
			want: o{Order: Slack(ms), FlushEvery: ms, BarrierInterval: time.Second, Spill: half(16 << 20)}},
	} {
		got, err := c.in.effective([]*Reader{newFake(t, 3, Options{RingBytes: 1 << 16}).Reader})
		require.NoError(t, err, name)
		require.Equal(t, c.want, got, name)
		again, err := got.effective([]*Reader{newFake(t, 3, Options{RingBytes: 1 << 16}).Reader})
		require.NoError(t, err, name)
		require.Equal(t, got, again, "%s: what came out can be used again", name)
	}
}

func TestStreamOptionsThatCannotBe(t *testing.T) {
	for want, c := range map[string]struct {
		o       StreamOptions
		noTime  bool
		payload bool
	}{
		"slack is -1ns: must not be negative":                     {o: StreamOptions{Order: Slack(-1)}},
		"Options.NoTime, and so have no times: open them without": {noTime: true},
		"NoTime, and so have no times":                            {noTime: true, o: StreamOptions{Order: Slack(time.Second)}},
		"NestLevels alone, which waits for outputs":               {payload: true, o: StreamOptions{Barriers: NestLevels}},
		"Barriers is 0x30: use only NestLevels, BindMount":        {o: StreamOptions{Barriers: 0x30}},
		"FlushEvery is -1s: must be at least 1ms, or 0 for never": {o: StreamOptions{FlushEvery: -time.Second}},
		"FlushEvery is 999µs: must be at least 1ms, or 0 for nev": {o: StreamOptions{FlushEvery: 999 * time.Microsecond}},
		"FlushEvery is 1ms, and BarrierInterval 2ms: must not be": {o: StreamOptions{FlushEvery: time.Millisecond, BarrierInterval: 2 * time.Millisecond}},
		"Spill.Above is -1 and Spill.Until 0: use percentages":    {o: StreamOptions{Spill: Spill{Above: -1}}},
		"Spill.Above is 101 and Spill.Until 0":                    {o: StreamOptions{Spill: Spill{Above: 101}}},
		"Spill.Above is 0 and Spill.Until -1":                     {o: StreamOptions{Spill: Spill{Until: -1}}},
		"Spill.Above is 0 and Spill.Until 101":                    {o: StreamOptions{Spill: Spill{Until: 101}}},
		"Spill.Until is 51: must not be above Spill.Above, 50":    {o: StreamOptions{Spill: Spill{Until: 51}}},
		"Spill.Until is 31: must not be above Spill.Above, 30":    {o: StreamOptions{Spill: Spill{Above: 30, Until: 31}}},
	} {
		k := newFake(t, 2, Options{NoTime: c.noTime, Time: TimeSource{payload: c.payload, offset: 8}})
		k.programs = &fakePrograms{}
		_, err := k.Stream(c.o)
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, "perfbuf.Stream: ")
		require.NoError(t, k.unordered().ForEach(never), "nothing is left claimed")
		require.Zero(t, k.programs.opens.Load())
	}
}

func TestOptionsOfAStream(t *testing.T) {
	k := newFake(t, 2, Options{})
	s, err := k.Stream(StreamOptions{Order: Slack(time.Second)})
	require.NoError(t, err)
	require.Equal(t, StreamOptions{
		Order: Slack(time.Second), BarrierInterval: time.Millisecond,
		Spill: Spill{Bytes: 16 << 20, Above: 50, Until: 25},
	}, s.Options())
}

// A stream's barriers wait as its options say, and so do Drain and Close while it is open. Those
// need whole programs.
func TestBarriersArePassedOn(t *testing.T) {
	all := grace.Options{}
	for _, c := range []struct {
		o             StreamOptions
		time          TimeSource
		stream, drain grace.Options
	}{
		{StreamOptions{}, TimeSource{}, all, grace.Options{Programs: true, Once: true}},
		{StreamOptions{}, PayloadTime(0), grace.Options{Programs: true}, grace.Options{Programs: true, Once: true}},
		{StreamOptions{Barriers: MapInMap | Membarrier}, TimeSource{}, grace.Options{Allow: grace.MapInMap | grace.Membarrier},
			grace.Options{Allow: grace.MapInMap | grace.Membarrier, Programs: true, Once: true}},
		{StreamOptions{Barriers: NestLevels}, TimeSource{}, grace.Options{Allow: grace.NestLevels}, grace.Options{Allow: grace.MapInMap | grace.Membarrier, Programs: true, Once: true}},
	} {
		k := newFake(t, 2, Options{CPUs: []int{10, 11}, Time: c.time})
		s, _ := k.stepped(1, c.o)
		require.Equal(t, c.stream, k.programs.options)
		require.NoError(t, s.Drain(t.Context(), never))
		require.Equal(t, c.drain, k.programs.options)
		require.NoError(t, s.Close())
	}
	require.Equal(t, "bind-mount|map-in-map", (BindMount | MapInMap).String())
}
