package otlp

import (
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/ringfold/ringfold/cmd/ringfold/internal/source"
	"go.opentelemetry.io/otel/attribute"
)

// valueBytes is what a value takes in a request, at most, beyond its name and text.
const valueBytes = 20

// value is a decoded one as OpenTelemetry has it, and about how many bytes that takes. Integers over 1<<63 - 1 become
// text, for there are none in OTLP. Text that is not UTF-8, which protobuf refuses, becomes bytes.
func value(v source.Value) (made attribute.Value, size int) {
	switch v := source.Plain(v).(type) {
	case source.Fields:
		members := make([]attribute.KeyValue, 0, len(v))
		size = valueBytes
		for _, f := range v {
			one, n := value(f.Value)
			members = append(members, attribute.KeyValue{Key: attribute.Key(utf8Only(f.Name)), Value: one})
			size += len(f.Name) + valueBytes + n
		}
		return attribute.MapValue(members...), size
	case []source.Value:
		list := make([]attribute.Value, 0, len(v))
		size = valueBytes
		for _, element := range v {
			one, n := value(element)
			list, size = append(list, one), size+n
		}
		return attribute.SliceValue(list...), size
	case int64:
		return attribute.Int64Value(v), valueBytes
	case uint64:
		if v > math.MaxInt64 {
			return attribute.StringValue(strconv.FormatUint(v, 10)), valueBytes + 20
		}
		return attribute.Int64Value(int64(v)), valueBytes
	case float64:
		return attribute.Float64Value(v), valueBytes
	case bool:
		return attribute.BoolValue(v), valueBytes
	case string:
		if !utf8.ValidString(v) {
			return attribute.ByteSliceValue([]byte(v)), valueBytes + len(v)
		}
		return attribute.StringValue(v), valueBytes + len(v)
	case []byte:
		return attribute.ByteSliceValue(v), valueBytes + len(v)
	}
	return attribute.Value{}, valueBytes
}

// utf8Only is a name as protobuf takes it: those of maps and of types may be any bytes.
func utf8Only(name string) string { return strings.ToValidUTF8(name, "\uFFFD") }
