package source

import (
	"encoding/hex"
	"encoding/json"
	"strconv"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/cli"
)

// A Value is what a piece of a payload is: an int64, a uint64, a float64, a bool, a string (which may
// hold any bytes), or one of the types below.
type Value any

// Field is a member of a struct.
type Field struct {
	Name  string
	Value Value
}

type (
	// Fields are the members of a struct, in their order.
	Fields  []Field
	raw     []byte // bytes that are not text
	address uint64 // a pointer
	// enumerator is the name of an enum's value.
	enumerator string
	values     []Value
)

// Plain returns v without the types of this package, for others that take values apart: an int64, a
// uint64, a float64, a bool, a string, a []byte that is not text, a []Value, or Fields. An address is
// a string of hexadecimal digits.
func Plain(v Value) any {
	switch v := v.(type) {
	case raw:
		return []byte(v)
	case address:
		return "0x" + strconv.FormatUint(uint64(v), 16)
	case enumerator:
		return string(v)
	case values:
		return []Value(v)
	}
	return v
}

// AppendText appends the fields of the outermost struct as text: name=value, with blanks between.
func (f Fields) AppendText(b []byte) []byte { return asText.members(b, f) }

// AppendJSON appends fields as an object, in their order, which a Go map would lose. Integers are
// numbers, whatever their size; addresses and raw bytes are strings of hexadecimal digits.
func (f Fields) AppendJSON(b []byte) []byte { return asJSON.value(b, f) }

// format says how values are written.
type format struct {
	between, is string                          // two values; a name and its value
	name, text  func(b []byte, s string) []byte // a name, and the text in a payload
	float       func(b []byte, f float64) []byte
	quote       string // around hexadecimal digits
}

var (
	asText = format{" ", "=", appendPrintable, strconv.AppendQuote, appendFloat, ""}
	asJSON = format{",", ":", marshal[string], marshal[string], marshal[float64], `"`}
)

func (w format) members(b []byte, f Fields) []byte {
	for i, one := range f {
		if i > 0 {
			b = append(b, w.between...)
		}
		b = w.value(append(w.name(b, one.Name), w.is...), one.Value)
	}
	return b
}

func (w format) value(b []byte, v Value) []byte {
	switch v := v.(type) {
	case Fields:
		return append(w.members(append(b, '{'), v), '}')
	case values:
		b = append(b, '[')
		for i, one := range v {
			if i > 0 {
				b = append(b, w.between...)
			}
			b = w.value(b, one)
		}
		return append(b, ']')
	case enumerator:
		return w.name(b, string(v))
	case string:
		return w.text(b, v)
	case raw:
		return append(hex.AppendEncode(append(b, w.quote...), v), w.quote...)
	case address:
		return append(strconv.AppendUint(append(b, w.quote+"0x"...), uint64(v), 16), w.quote...)
	case int64:
		return strconv.AppendInt(b, v, 10)
	case uint64:
		return strconv.AppendUint(b, v, 10)
	case float64:
		return w.float(b, v)
	case bool:
		return strconv.AppendBool(b, v)
	}
	return append(b, '?')
}

func appendPrintable(b []byte, s string) []byte { return append(b, cli.Printable(s)...) }

func appendFloat(b []byte, f float64) []byte { return strconv.AppendFloat(b, f, 'g', -1, 64) }

// marshal is null for floats that JSON does not have: NaN and infinite ones.
func marshal[T string | float64](b []byte, v T) []byte {
	encoded, err := json.Marshal(v)
	if err != nil {
		return append(b, "null"...)
	}
	return append(b, encoded...)
}
