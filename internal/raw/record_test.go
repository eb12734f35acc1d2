package raw_test

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/ringfold/ringfold/internal/raw"
	"github.com/ringfold/ringfold/internal/ringtest"
	"github.com/stretchr/testify/require"
)

func words(v ...uint64) (b []byte) {
	for _, w := range v {
		b = binary.NativeEndian.AppendUint64(b, w)
	}
	return b
}

func TestLost(t *testing.T) {
	const id, lost, time = 0xAAAA, 7, 0xBBBB
	for name, c := range map[string]struct {
		layout raw.Layout
		body   []byte
		want   raw.Record
	}{
		"no time in the layout":         {raw.LayoutRaw, words(id, lost), raw.Record{Kind: raw.Lost, Size: 24, Lost: lost}},
		"time that the layout has not":  {raw.LayoutRaw, words(id, lost, time), raw.Record{Kind: raw.Lost, Size: 32, Lost: lost}},
		"with time":                     {raw.LayoutRawTime, words(id, lost, time), raw.Record{Kind: raw.Lost, Size: 32, Lost: lost, Time: time}},
		"without sample_id_all":         {raw.LayoutRawTime, words(id, lost), raw.Record{Kind: raw.Lost, Size: 24, Lost: lost}},
		"with more fields than we know": {raw.LayoutRawTime, words(id, lost, time, 1), raw.Record{Kind: raw.Lost, Size: 40, Lost: lost, Time: time}},
		"of nothing":                    {raw.LayoutRawTime, words(id, 0, time), raw.Record{Kind: raw.Lost, Size: 32, Time: time}},
		"of very many":                  {raw.LayoutRawTime, words(id, math.MaxUint64, time), raw.Record{Kind: raw.Lost, Size: 32, Lost: math.MaxUint64, Time: time}},
	} {
		t.Run(name, func(t *testing.T) {
			for at := uint64(0); at < 64; at += 8 {
				w := ringtest.New(64, c.layout, at)
				w.Put(ringtest.TypeLost, c.body)
				r := w.Raw()
				want := c.want
				want.Off = at
				require.Equal(t, want, ringtest.Parse(r, at, r.Head()))
			}
		})
	}
}

func TestUnknownTypesAreSkippedWhole(t *testing.T) {
	for _, typ := range []uint32{0, 1, 3, 4, ringtest.TypeThrottle, 8, 10, 21, 1 << 31, math.MaxUint32, 9 << 16, 2 << 24} {
		for body := 0; body <= 48; body += 8 {
			w := ringtest.New(128, raw.LayoutRawTime, 96)
			w.Put(typ, make([]byte, body))
			require.NoError(t, w.Output(5, ringtest.Payload(1, 20)))
			r := w.Raw()
			rec := ringtest.Parse(r, 96, r.Head())
			require.Equal(t, raw.Record{Kind: raw.Unknown, Off: 96, Size: 8 + uint64(body)}, rec, "type %d", typ)
			require.Equal(t, raw.Sample, ringtest.Parse(r, 96+rec.Size, r.Head()).Kind)
		}
	}
}

// A size, or a field, that cannot be: everything up to the head is one corrupt stretch.
func TestCorruptHeaders(t *testing.T) {
	const ahead = 64 // how far the head is
	for name, c := range map[string]struct {
		layout raw.Layout
		typ    uint32
		size   uint16
		raw    uint32 // raw_size
		fault  raw.Fault
	}{
		"size 0":                          {raw.LayoutRaw, 9, 0, 4, raw.FaultZero},
		"size 0 of an unknown type":       {raw.LayoutRaw, 77, 0, 4, raw.FaultZero},
		"size 1":                          {raw.LayoutRaw, 9, 1, 4, raw.FaultSmall},
		"size 7":                          {raw.LayoutRaw, 9, 7, 4, raw.FaultSmall},
		"size 9":                          {raw.LayoutRaw, 9, 9, 4, raw.FaultUnaligned},
		"size 60":                         {raw.LayoutRaw, 9, 60, 4, raw.FaultUnaligned},
		"size 65535":                      {raw.LayoutRaw, 9, 65535, 4, raw.FaultUnaligned},
		"one word beyond the head":        {raw.LayoutRaw, 9, ahead + 8, 4, raw.FaultBeyondHead},
		"unknown type beyond the head":    {raw.LayoutRaw, 77, ahead + 8, 4, raw.FaultBeyondHead},
		"size 65528":                      {raw.LayoutRaw, 9, 65528, 4, raw.FaultBeyondHead},
		"sample of a header only":         {raw.LayoutRaw, 9, 8, 0, raw.FaultShort},
		"sample without raw_size":         {raw.LayoutRawTime, 9, 16, 0, raw.FaultShort},
		"lost of a header only":           {raw.LayoutRaw, 2, 8, 0, raw.FaultShort},
		"lost without its count":          {raw.LayoutRawTime, 2, 16, 0, raw.FaultShort},
		"raw_size one too large":          {raw.LayoutRaw, 9, 32, 21, raw.FaultRawSize},
		"raw_size one too large, timed":   {raw.LayoutRawTime, 9, 32, 13, raw.FaultRawSize},
		"raw_size with the smallest size": {raw.LayoutRaw, 9, 16, 5, raw.FaultRawSize},
		"raw_size of all ones":            {raw.LayoutRawTime, 9, 32, math.MaxUint32, raw.FaultRawSize},
	} {
		t.Run(name, func(t *testing.T) {
			for _, at := range []uint64{0, 128 - 8, 128 - 16, 128 - 24, 1<<32 - 16, math.MaxUint64 - 15} {
				w := ringtest.New(128, c.layout, at)
				for i := range w.Data() {
					w.Data()[i] = 0
				}
				where := at + 8
				if c.layout == raw.LayoutRawTime {
					where += 8
				}
				binary.NativeEndian.PutUint32(w.Data()[where%128:], c.raw)
				w.PutHeader(c.typ, c.size, ahead)
				r := w.Raw()
				require.Equal(t, raw.Record{Kind: raw.Corrupt, Fault: c.fault, Off: at, Size: ahead}, ringtest.Parse(r, at, r.Head()))
			}
		})
	}
}

// The largest values that the checks must let through.
func TestRecordsThatJustFit(t *testing.T) {
	for name, l := range layouts {
		t.Run(name, func(t *testing.T) {
			w := ringtest.New(128, l.layout, 0)
			body := make([]byte, 128-8)
			binary.NativeEndian.PutUint32(body[l.before-12:], uint32(128-l.before))
			w.Put(ringtest.TypeSample, body)
			r := w.Raw()
			rec := ringtest.Parse(r, 0, r.Head())
			require.Equal(t, raw.Sample, rec.Kind, "a record as large as the ring, which no kernel writes")
			require.Equal(t, uint64(128), rec.Size)
			require.Equal(t, uint64(128)-l.before, uint64(rec.Len))
		})
	}
}

func TestHeadFurtherAheadThanTheRing(t *testing.T) {
	w := ringtest.New(64, raw.LayoutRaw, 8)
	require.NoError(t, w.Output(0, ringtest.Payload(1, 12)))
	r := w.Raw()
	require.Equal(t, raw.Sample, ringtest.Parse(r, 8, 8+64).Kind, "a full ring is fine")
	for _, ahead := range []uint64{72, 1 << 20, math.MaxUint64 &^ 7} {
		require.Equal(t, raw.Record{Kind: raw.Corrupt, Fault: raw.FaultHead, Off: 8, Size: ahead}, ringtest.Parse(r, 8, 8+ahead))
	}
}

func TestEveryFaultHasItsWords(t *testing.T) {
	seen := map[string]raw.Fault{}
	for f := raw.FaultNone; f <= raw.FaultChanged; f++ {
		require.NotEmpty(t, f.String())
		require.NotContains(t, seen, f.String())
		seen[f.String()] = f
	}
}

// A Record is used again and again: what the one before left in it does not show.
func TestNothingIsLeftOfTheRecordBefore(t *testing.T) {
	w := ringtest.New(512, raw.LayoutRawTime, 0)
	w.Put(ringtest.TypeThrottle, words(1, 2, 3))
	w.Put(ringtest.TypeLost, words(1, 2))
	require.NoError(t, w.Output(4, ringtest.Payload(1, 100)))
	w.Put(ringtest.TypeLost, words(1, 2, 3))
	w.PutHeader(ringtest.TypeSample, 0, 8)
	r := w.Raw()
	for off := uint64(0); off != r.Head(); {
		fresh := ringtest.Parse(r, off, r.Head())
		dirty := raw.Record{Kind: 77, Fault: 77, Off: 77, Size: 77, Time: 77}
		r.Parse(off, r.Head(), &dirty)
		require.Equal(t, fresh.Kind, dirty.Kind)
		require.Equal(t, fresh.Off, dirty.Off)
		require.Equal(t, fresh.Size, dirty.Size)
		require.Equal(t, fresh.Time, dirty.Time)
		if fresh.Kind == raw.Corrupt {
			require.Equal(t, fresh.Fault, dirty.Fault)
		}
		off += fresh.Size
	}
}
