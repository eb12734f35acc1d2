package raw_test

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/ringfold/ringfold/internal/raw"
	"github.com/ringfold/ringfold/internal/ringtest"
	"github.com/stretchr/testify/require"
)

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
				require.Equal(t, want, parse(t, r, at, r.Head()))
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
			rec := parse(t, r, 96, r.Head())
			require.Equal(t, raw.Record{Kind: raw.Unknown, Off: 96, Size: 8 + uint64(body)}, rec, "type %d", typ)
			require.Equal(t, raw.Sample, parse(t, r, 96+rec.Size, r.Head()).Kind)
		}
	}
}

// After an impossible size or field, everything up to the head is one corrupt stretch. The same
// holds for a head more than the ring's size ahead, or behind.
func TestCorruptHeaders(t *testing.T) {
	const untimed, timed, ringBuf, head = raw.LayoutRaw, raw.LayoutRawTime, raw.LayoutRingBuf, 64
	for name, c := range map[string]struct {
		layout raw.Layout
		typ    uint32 // or a ring buffer's length, with flags
		size   uint16
		raw    uint32 // raw_size
		ahead  uint64 // how far the head is
		fault  raw.Fault
	}{
		"size 0":                          {untimed, 9, 0, 4, head, raw.FaultZero},
		"size 0 of an unknown type":       {untimed, 77, 0, 4, head, raw.FaultZero},
		"size 1":                          {untimed, 9, 1, 4, head, raw.FaultSmall},
		"size 7":                          {untimed, 9, 7, 4, head, raw.FaultSmall},
		"size 9":                          {untimed, 9, 9, 4, head, raw.FaultUnaligned},
		"size 60":                         {untimed, 9, 60, 4, head, raw.FaultUnaligned},
		"size 65535":                      {untimed, 9, 65535, 4, head, raw.FaultUnaligned},
		"one word beyond the head":        {untimed, 9, head + 8, 4, head, raw.FaultBeyondHead},
		"unknown type beyond the head":    {untimed, 77, head + 8, 4, head, raw.FaultBeyondHead},
		"size 65528":                      {untimed, 9, 65528, 4, head, raw.FaultBeyondHead},
		"sample of a header only":         {untimed, 9, 8, 0, head, raw.FaultShort},
		"sample without raw_size":         {timed, 9, 16, 0, head, raw.FaultShort},
		"lost of a header only":           {untimed, 2, 8, 0, head, raw.FaultShort},
		"lost without its count":          {timed, 2, 16, 0, head, raw.FaultShort},
		"raw_size one too large":          {untimed, 9, 32, 21, head, raw.FaultRawSize},
		"raw_size one too large, timed":   {timed, 9, 32, 13, head, raw.FaultRawSize},
		"raw_size with the smallest size": {untimed, 9, 16, 5, head, raw.FaultRawSize},
		"raw_size of all ones":            {timed, 9, 32, math.MaxUint32, head, raw.FaultRawSize},
		"head one word too far":           {untimed, 9, 24, 8, 136, raw.FaultHead},
		"head too far":                    {timed, 9, 32, 8, 1 << 20, raw.FaultHead},
		"head went back":                  {untimed, 9, 24, 8, math.MaxUint64 - 7, raw.FaultHead},

		"ring buffer, beyond the head":            {ringBuf, 17, 0, 0, 24, raw.FaultBeyondHead},
		"ring buffer, busy, beyond the head":      {ringBuf, 17 | ringtest.RingBufBusy, 0, 0, 24, raw.FaultBeyondHead},
		"ring buffer, discarded, beyond the head": {ringBuf, 17 | ringtest.RingBufDiscarded, 0, 0, 24, raw.FaultBeyondHead},
		"ring buffer, longest":                    {ringBuf, 1<<30 - 1, 0, 0, 128, raw.FaultBeyondHead},
		"ring buffer, longer than the ring":       {ringBuf, 121, 0, 0, 128, raw.FaultBeyondHead},
		"ring buffer, head too far":               {ringBuf, 1, 0, 0, 136, raw.FaultHead},
		"ring buffer, head went back":             {ringBuf, 1, 0, 0, math.MaxUint64 - 7, raw.FaultHead},
	} {
		t.Run(name, func(t *testing.T) {
			for _, at := range []uint64{0, 128 - 8, 128 - 16, 128 - 24, 1<<32 - 16, math.MaxUint64 - 15} {
				w := write(t, c.layout, 128, at, 0)
				clear(w.Data())
				if p, ok := w.(*ringtest.Ring); ok {
					binary.NativeEndian.PutUint32(w.Data()[(at+8+8*uint64(c.layout))%128:], c.raw)
					p.PutHeader(c.typ, c.size, c.ahead)
				} else {
					w.(*ringtest.RingBuf).PutHeader(c.typ, c.ahead)
				}
				want := raw.Record{Kind: raw.Corrupt, Fault: c.fault, Off: at, Size: c.ahead}
				require.Equal(t, want, parse(t, w.Raw(), at, at+c.ahead))
				agree(t, w.Raw(), w.Data(), stretch{at, at + c.ahead, at + c.ahead, 0, math.MaxUint64, -1, -1})
			}
		})
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
