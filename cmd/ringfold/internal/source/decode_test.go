package source

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"
	"github.com/stretchr/testify/require"
)

// What is cut off anywhere is no reason to fail, and what is there does not change.
func TestDecodeCutOff(t *testing.T) {
	spec, err := btf.LoadSpec("decode.bpf.o")
	require.NoError(t, err)
	d, err := findType("sample", "", spec)
	require.NoError(t, err)
	payload := make([]byte, d.Size+20)
	for i := range payload {
		payload[i] = byte(i)*37 | 1
	}
	last := 0
	for n := range d.Size + 1 {
		f := d.Decode(payload[:n:n])
		require.GreaterOrEqual(t, len(f), last)
		last = len(f)
		var back map[string]any
		require.NoError(t, json.Unmarshal(asJSON.value(nil, f), &back))
		require.Len(t, back, len(f))
	}
	f := d.Decode(payload) // longer by more than padding
	require.Len(t, f, last+1)
	require.Equal(t, raw(payload[d.Size:]), f[last].Value)
}

func TestValues(t *testing.T) {
	char := &btf.Int{Name: "char", Size: 1, Encoding: btf.Signed}
	u32 := &btf.Int{Name: "unsigned int", Size: 4}
	flexible := &btf.Struct{Name: "f", Size: 4, Members: []btf.Member{{Name: "n", Type: u32}, {Name: "rest", Type: &btf.Array{Type: char}, Offset: 32}}}
	require.Equal(t, Fields{{"n", uint64(1)}, {"rest", "abc"}}, (&Decoder{Size: 8, typ: flexible}).Decode([]byte("\x01\x00\x00\x00abc\x00")))

	nan := binary.LittleEndian.AppendUint32(nil, math.Float32bits(float32(math.NaN())))
	left := newBudget(nan)
	v, ok := left.value(&btf.Float{Size: 4}, nan)
	require.True(t, ok)
	require.Equal(t, "null", string(asJSON.value(nil, v)))
	require.Equal(t, "NaN", string(asText.value(nil, v)))

	v, ok = left.value(&btf.Int{Size: 16}, make([]byte, 16))
	require.True(t, ok)
	require.Equal(t, strings.Repeat("0", 32), string(asText.value(nil, v)))

	e := &btf.Enum{Size: 8, Signed: true, Values: []btf.EnumValue{{Name: "LOW", Value: math.MaxUint64}}}
	require.Equal(t, enumerator("LOW"), scalar(e, math.MaxUint64, 64))
	require.Equal(t, int64(-2), scalar(e, math.MaxUint64-1, 64))
	require.Equal(t, `"\ufffd\u0001"`, string(asJSON.value(nil, "\xff\x01"))) // as encoding/json has it
}
