// Package spool keeps batches on disk until the broker has them: a file that survives the agent,
// however that ends.
package spool

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
)

// Spool is an open one. Its methods may be called from anywhere at any time, but Next and Renew by
// one goroutine.
type Spool struct {
	db    *bolt.DB
	logs  []Log  // of the batches that it has, and the present one, by First
	fresh uint64 // what is appended has positions from here on
	bytes atomic.Int64
}

// Log is what was appended since the spool was opened, or since Renew. Its id is random, so a copy
// of the file begins another log.
type Log struct {
	ID    string
	First uint64 // position with which it begins
	Prior string // ID of the log before it
}

var (
	batchesBucket = []byte("batches") // by position, big-endian: all logs' batches, in the order in which they were appended
	metaBucket    = []byte("ringfold-spool")
	logsKey       = []byte("logs")
	checksums     = crc32.MakeTable(crc32.Castagnoli)
)

var (
	errCorrupt = errors.New("a batch's checksum is wrong")
	errForeign = errors.New("a database of another program")
)

// Open opens an agent's spool, and makes it if there is none. Batches of before stay, to be
// published, and a new log begins. It reads all that the file holds, and checks it.
func Open(path string) (s *Spool, err error) {
	s = &Spool{}
	if err := guard(func() error { return s.open(path) }); err != nil {
		if s.db != nil {
			// A transaction that ended in a panic has unlocked what it held, and the file is to be
			// closed all the same.
			_ = guard(s.db.Close)
		}
		return nil, explain(path, err)
	}
	return s, nil
}

func (s *Spool) open(path string) (err error) {
	if s.db, err = bolt.Open(path, 0o600, &bolt.Options{Timeout: time.Millisecond}); err != nil { // does not wait for a lock
		return err
	}
	if err := s.db.Update(s.begin); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync() // or a power failure might take a new file with all that is in it
}

// guard calls f. What it finds in a damaged file can make the database panic, or read behind the
// end of the file.
func guard(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", berrors.ErrInvalid, p)
		}
	}()
	return f()
}

func explain(path string, err error) error {
	var system syscall.Errno
	switch {
	case errors.Is(err, berrors.ErrTimeout):
		return fmt.Errorf("the spool %s is in use by another agent: end that one, or give this one another file", path)
	case errors.Is(err, errForeign):
		return fmt.Errorf("%s is %w, and no spool: name another file by spool=FILE", path, err)
	case errors.As(err, &system):
		return fmt.Errorf("opening the spool %s: %w", path, err)
	default: // the database does not like what it finds
		return fmt.Errorf("the spool %s is damaged, or no spool (%w). Nothing in it has been changed. "+
			"To go on without what it holds, move it out of the way: a new one, with a new log, is made", path, err)
	}
}

// begin reads what there is, and begins a new log.
func (s *Spool) begin(tx *bolt.Tx) error {
	if bucket, _ := tx.Cursor().First(); bucket != nil && tx.Bucket(metaBucket) == nil {
		return errForeign
	}
	meta, err := tx.CreateBucketIfNotExists(metaBucket)
	if err != nil {
		return err
	}
	batches, err := tx.CreateBucketIfNotExists(batchesBucket)
	if err != nil {
		return err
	}
	if b := meta.Get(logsKey); b != nil {
		if err := json.Unmarshal(b, &s.logs); err != nil {
			return fmt.Errorf("%w: %w", errCorrupt, err)
		}
	}
	s.fresh = batches.Sequence() + 1
	oldest, size := s.fresh, int64(0)
	err = batches.ForEach(func(k, v []byte) error {
		data, err := unseal(v)
		if err != nil || len(k) != 8 {
			return errCorrupt
		}
		oldest = min(oldest, binary.BigEndian.Uint64(k))
		size += int64(len(data))
		return nil
	})
	if err != nil {
		return err
	}
	s.bytes.Store(size)
	for len(s.logs) > 1 && s.logs[1].First <= oldest {
		s.logs = s.logs[1:]
	}
	return s.beginLog(tx, s.fresh)
}

// beginLog begins a log at a position. It takes the place of those that would have nothing left.
func (s *Spool) beginLog(tx *bolt.Tx, at uint64) error {
	l := Log{ID: rand.Text(), First: at}
	logs := slices.Clone(s.logs)
	for n := len(logs) - 1; n >= 0; n-- {
		if logs[n].First < at {
			l.Prior = logs[n].ID
			break
		}
		logs, l.Prior = logs[:n], logs[n].Prior
	}
	logs = append(logs, l)
	b, err := json.Marshal(logs)
	if err != nil {
		return err
	}
	s.logs = logs
	return tx.Bucket(metaBucket).Put(logsKey, b)
}

// Renew has the batches from a position on be of a new log, which it returns.
func (s *Spool) Renew(at uint64) (Log, error) {
	before := s.logs
	if err := s.db.Update(func(tx *bolt.Tx) error { return s.beginLog(tx, at) }); err != nil {
		s.logs = before
		return Log{}, err
	}
	return s.logs[len(s.logs)-1], nil
}

// Bytes is the size of all batches that are in it. The file may have several times as many, and
// does not shrink.
func (s *Spool) Bytes() int64 { return s.bytes.Load() }

// Append adds batches to the log, all or none. When it returns they are on disk.
func (s *Spool) Append(all ...[]byte) error {
	size := int64(0)
	err := s.db.Update(func(tx *bolt.Tx) error {
		bucket := tx.Bucket(batchesBucket)
		bucket.FillPercent = 1 // keys only grow
		for _, data := range all {
			position, err := bucket.NextSequence()
			if err != nil {
				return err
			}
			if err := bucket.Put(key(position), seal(data)); err != nil {
				return err
			}
			size += int64(len(data))
		}
		return nil
	})
	if err == nil {
		s.bytes.Add(size)
	}
	return err
}

// Entry is a batch in the spool.
type Entry struct {
	Position uint64 // 1, 2, ... over all logs
	Log      Log
	Fresh    bool // it was appended since the spool was opened
	Data     []byte
}

// Next returns the oldest batch behind a position, and whether there is one. The data are the
// caller's.
func (s *Spool) Next(after uint64) (e Entry, ok bool, err error) {
	err = s.db.View(func(tx *bolt.Tx) error {
		k, v := tx.Bucket(batchesBucket).Cursor().Seek(key(after + 1))
		if k == nil {
			return nil
		}
		data, err := unseal(v)
		at := binary.BigEndian.Uint64(k)
		e, ok = Entry{Position: at, Fresh: at >= s.fresh, Data: slices.Clone(data)}, err == nil
		for _, l := range s.logs {
			if l.First <= at {
				e.Log = l
			}
		}
		return err
	})
	return e, ok, err
}

// Delete removes all batches up to a position.
func (s *Spool) Delete(upTo uint64) error {
	size := int64(0)
	err := s.db.Update(func(tx *bolt.Tx) error {
		c := tx.Bucket(batchesBucket).Cursor()
		for k, v := c.First(); k != nil && binary.BigEndian.Uint64(k) <= upTo; k, v = c.First() {
			size += int64(len(v) - checksumSize)
			if err := c.Delete(); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		s.bytes.Add(-size)
	}
	return err
}

// Close closes the file, for others to open.
func (s *Spool) Close() error { return s.db.Close() }

func key(position uint64) []byte { return binary.BigEndian.AppendUint64(nil, position) }

const checksumSize = 4

// seal adds a checksum, as the database has none for what it keeps.
func seal(data []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, crc32.Checksum(data, checksums)), data...)
}

func unseal(v []byte) (data []byte, err error) {
	if len(v) < checksumSize || crc32.Checksum(v[checksumSize:], checksums) != binary.BigEndian.Uint32(v) {
		return nil, errCorrupt
	}
	return v[checksumSize:], nil
}
