package source

import (
	"math"
	"testing"

	"github.com/cilium/ebpf/btf"
	"github.com/stretchr/testify/require"
)

func TestParseFilter(t *testing.T) {
	f, err := parseFilter(` pid == 12&&comm == "s\"h" && ret<-5 && a.b>= 0x10 &&c!='x y' && d==GREEN`)
	require.NoError(t, err)
	require.Equal(t, filter{
		{"pid", "==", "12", int64(12)}, {"comm", "==", `s"h`, nil}, {"ret", "<", "-5", int64(-5)},
		{"a.b", ">=", "0x10", int64(16)}, {"c", "!=", "x y", nil}, {"d", "==", "GREEN", nil},
	}, f)
	f, err = parseFilter(" ")
	require.NoError(t, err)
	require.Nil(t, f)
	for text, want := range map[string]string{
		"pid":               `"pid" should be a condition`,
		"== 3":              "should be a condition",
		"pid = 3":           "behind pid should be one of == != <= >= < >",
		"pid == ":           "a value is missing",
		"pid == && a == 1":  "a value is missing",
		"pid == 3 a == 1":   `"a == 1" should be && and a condition`,
		"pid == 3 || a > 1": `"|| a > 1" should be && and a condition`,
		"pid == 3 &&":       "should be a condition",
		`comm == "sh`:       "the closing quote is missing",
		`comm == 'sh`:       "the closing quote is missing",
	} {
		_, err := parseFilter(text)
		require.ErrorContains(t, err, want, text)
	}
}

func FuzzParseFilter(f *testing.F) {
	f.Add(`pid == 12 && comm != "sh" && x.y<='-1'`)
	f.Fuzz(func(t *testing.T, text string) {
		conditions, err := parseFilter(text)
		for _, c := range conditions {
			require.NoError(t, err)
			require.NotEmpty(t, c.path)
			require.NotEmpty(t, c.op)
		}
	})
}

func TestCompare(t *testing.T) {
	for _, c := range []struct {
		value   Value
		literal string
		order   int
	}{
		{int64(-1), "-1", 0}, {int64(-1), "0", -1}, {int64(-1), "18446744073709551615", -1}, {uint64(math.MaxUint64), "-1", 1},
		{uint64(math.MaxUint64), "18446744073709551615", 0}, {uint64(math.MaxUint64 - 1), "18446744073709551615", -1},
		{0.5, "0.5", 0}, {0.5, "1", -1}, {int64(3), "2.5", 1}, {address(16), "0x10", 0},
		{"sh", "sh", 0}, {"sh", "zsh", -1}, {raw{0xab}, "AB", 0}, {true, "true", 0}, {false, "1", -1}, {enumerator("RED"), "RED", 0},
	} {
		for op, want := range map[string]bool{"==": c.order == 0, "!=": c.order != 0, "<": c.order < 0, "<=": c.order <= 0, ">": c.order > 0, ">=": c.order >= 0} {
			got := (&condition{op: op, text: c.literal, number: parseNumber(c.literal)}).compare(c.value)
			require.Equal(t, want, got, "%v %s %s", c.value, op, c.literal)
		}
	}
	require.False(t, (&condition{op: "!=", text: "1", number: int64(1)}).compare(values{}))
}

// --pid means the field pid, or tgid, and an enum is compared by name or number.
func TestFieldsOfConditions(t *testing.T) {
	u32 := &btf.Int{Name: "unsigned int", Size: 4}
	color := &btf.Enum{Name: "color", Size: 4, Values: []btf.EnumValue{{Name: "RED", Value: 2}, {Name: "NONE", Value: math.MaxUint32}, {Name: "LAST", Value: 2}}}
	inner := &btf.Struct{Size: 4, Members: []btf.Member{{Name: "tgid", Type: u32}}}
	typ := &btf.Struct{Name: "e", Size: 8, Members: []btf.Member{{Type: inner}, {Name: "color", Type: color, Offset: 32}}}
	d := describe("struct e", 8, typ, typ)
	require.Equal(t, []string{"tgid", "color"}, d.fields)
	c := pidIs(7)
	require.Equal(t, "tgid", c.field(d))
	set := &Set{Sources: []*Source{{Decoder: d}}, flags: &Flags{}}
	require.NoError(t, set.checkCondition(&c))
	for literal, payload := range map[string][]byte{
		"2": {7, 0, 0, 0, 2, 0, 0, 0}, "RED": {7, 0, 0, 0, 2, 0, 0, 0},
		"LAST": {7, 0, 0, 0, 2, 0, 0, 0}, // another name of RED
		"-1":   {7, 0, 0, 0, 0xff, 0xff, 0xff, 0xff}, "0xffffffff": {7, 0, 0, 0, 0xff, 0xff, 0xff, 0xff},
	} {
		c = condition{path: "color", op: "==", text: literal, number: parseNumber(literal)}
		require.NoError(t, set.checkCondition(&c))
		v, ok := d.Decode(payload).lookup("color")
		require.True(t, ok)
		require.True(t, c.compare(v), literal)
	}
	require.Equal(t, Fields{{"color", enumerator("RED")}}, d.Decode([]byte{7, 0, 0, 0, 2, 0, 0, 0}).Select([]string{"color", "none"}))
}
