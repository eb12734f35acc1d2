// Package spool keeps batches on disk until the broker has them: a file that survives the agent, however that ends.
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
	"sync/atomic"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
)

// Spool is an open one. Its methods may be called from anywhere at any time.
type Spool struct {
	path  string
	db    *bolt.DB
	log   Log
	bytes atomic.Int64
}

// Log is what an agent has written in one boot of its host. The host's next boot begins another.
type Log struct {
	BootID string
	LogID  string
	// Next is the sequence number of the batch that comes next; 1 if nothing has been written yet.
	Next      uint64
	Watermark uint64 // of the last batch
	Ended     bool   // the last batch said so
}

// Batch is one to be appended.
type Batch struct {
	Sequence  uint64
	Watermark uint64
	End       bool
	ID        string // under which it is published
	Data      []byte
}

var (
	batchesBucket = []byte("batches") // by position, big-endian: all logs' batches, in the order in which they were appended
	metaBucket    = []byte("meta")
	logKey        = []byte("log")
	checksums     = crc32.MakeTable(crc32.Castagnoli)
)

var errCorrupt = errors.New("a batch's checksum is wrong")

// Open opens the spool of an agent on a host in that boot, and makes it if there is none. Batches of earlier boots stay, to be published.
// It reads all that the file holds, and checks it.
func Open(path, boot string) (s *Spool, err error) {
	db, err := openFile(path)
	if err != nil {
		return nil, explain(path, err)
	}
	s = &Spool{path: path, db: db}
	if err := guard(func() error { return db.Update(func(tx *bolt.Tx) error { return s.begin(tx, boot) }) }); err != nil {
		// A transaction that ended in a panic has unlocked what it held, and the file is to be closed all the same.
		_ = guard(db.Close)
		return nil, explain(path, err)
	}
	return s, nil
}

func openFile(path string) (db *bolt.DB, err error) {
	_, none := os.Stat(path)
	err = guard(func() error {
		db, err = bolt.Open(path, 0o600, &bolt.Options{Timeout: time.Millisecond}) // does not wait for a lock
		return err
	})
	if err == nil && errors.Is(none, os.ErrNotExist) {
		err = syncDirectory(filepath.Dir(path)) // or a power failure might take a new file with all that is in it
		if err != nil {
			db.Close()
		}
	}
	return db, err
}

func syncDirectory(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// guard calls f. What it finds in a damaged file can make the database panic, or read behind the end of the file.
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
	case errors.As(err, &system):
		return fmt.Errorf("opening the spool %s: %w", path, err)
	default: // the database does not like what it finds
		return fmt.Errorf("the spool %s is damaged, or no spool (%w). Nothing in it has been changed. "+
			"To go on without what it holds, move it out of the way: a new one, with a new log, is made", path, err)
	}
}

// begin reads what there is, and begins a new log if there is none of this boot.
func (s *Spool) begin(tx *bolt.Tx, boot string) error {
	meta, err := tx.CreateBucketIfNotExists(metaBucket)
	if err != nil {
		return err
	}
	batches, err := tx.CreateBucketIfNotExists(batchesBucket)
	if err != nil {
		return err
	}
	if b := meta.Get(logKey); b != nil {
		if err := json.Unmarshal(b, &s.log); err != nil {
			return fmt.Errorf("%w: %w", errCorrupt, err)
		}
	}
	if s.log.BootID != boot {
		s.log = Log{BootID: boot, LogID: rand.Text(), Next: 1}
	}
	size := int64(0)
	err = batches.ForEach(func(k, v []byte) error {
		_, data, err := unseal(v)
		if err != nil || len(k) != 8 {
			return errCorrupt
		}
		size += int64(len(data))
		return nil
	})
	if err != nil {
		return err
	}
	s.bytes.Store(size)
	return s.putLog(tx, s.log)
}

func (s *Spool) putLog(tx *bolt.Tx, l Log) error {
	b, err := json.Marshal(l)
	if err != nil {
		return err
	}
	return tx.Bucket(metaBucket).Put(logKey, b)
}

// Log is how far the present log has come.
func (s *Spool) Log() Log { return s.log }

// Bytes is the size of all batches that are in it. The file may have several times as many, and does not shrink.
func (s *Spool) Bytes() int64 { return s.bytes.Load() }

// Append adds batches to the log, all or none. When it returns they are on disk. They have to go on where the log ends.
// Calls of Append and Log are for one goroutine.
func (s *Spool) Append(all ...Batch) error {
	l := s.log
	size := int64(0)
	err := s.db.Update(func(tx *bolt.Tx) error {
		bucket := tx.Bucket(batchesBucket)
		bucket.FillPercent = 1 // keys only grow
		for _, b := range all {
			if b.Sequence != l.Next {
				return fmt.Errorf("batch %d cannot follow batch %d in a log", b.Sequence, l.Next-1)
			}
			position, err := bucket.NextSequence()
			if err != nil {
				return err
			}
			if err := bucket.Put(key(position), seal(b.ID, b.Data)); err != nil {
				return err
			}
			l.Next, l.Watermark, l.Ended = b.Sequence+1, b.Watermark, b.End
			size += int64(len(b.Data))
		}
		return s.putLog(tx, l)
	})
	if err != nil {
		return fmt.Errorf("writing to the spool %s: %w", s.path, err)
	}
	s.log = l
	s.bytes.Add(size)
	return nil
}

// Entry is a batch in the spool.
type Entry struct {
	Position uint64 // 1, 2, ... over all logs
	ID       string
	Data     []byte
}

// Next returns the oldest batch behind a position, and whether there is one. The data are the caller's.
func (s *Spool) Next(after uint64) (e Entry, ok bool, err error) {
	err = s.db.View(func(tx *bolt.Tx) error {
		k, v := tx.Bucket(batchesBucket).Cursor().Seek(key(after + 1))
		if k == nil {
			return nil
		}
		id, data, err := unseal(v)
		e, ok = Entry{binary.BigEndian.Uint64(k), string(id), append([]byte(nil), data...)}, err == nil
		return err
	})
	if err != nil {
		return Entry{}, false, fmt.Errorf("reading the spool %s: %w", s.path, err)
	}
	return e, ok, nil
}

// Delete removes all batches up to a position, and returns how many bytes they had.
func (s *Spool) Delete(upTo uint64) (bytes int64, err error) {
	err = s.db.Update(func(tx *bolt.Tx) error {
		c := tx.Bucket(batchesBucket).Cursor()
		for k, v := c.First(); k != nil && binary.BigEndian.Uint64(k) <= upTo; k, v = c.First() {
			_, data, err := unseal(v)
			if err != nil {
				return err
			}
			bytes += int64(len(data))
			if err := c.Delete(); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("deleting from the spool %s: %w", s.path, err)
	}
	s.bytes.Add(-bytes)
	return bytes, nil
}

// Close closes the file, for others to open.
func (s *Spool) Close() error { return s.db.Close() }

func key(position uint64) []byte { return binary.BigEndian.AppendUint64(nil, position) }

// seal adds a checksum, as the database has none for what it keeps, and the id's length: crc32 (4 bytes), length (2 bytes), id, data.
func seal(id string, data []byte) []byte {
	b := make([]byte, 6, 6+len(id)+len(data))
	binary.BigEndian.PutUint16(b[4:], uint16(len(id)))
	b = append(append(b, id...), data...)
	binary.BigEndian.PutUint32(b, crc32.Checksum(b[4:], checksums))
	return b
}

func unseal(v []byte) (id, data []byte, err error) {
	if len(v) < 6 || crc32.Checksum(v[4:], checksums) != binary.BigEndian.Uint32(v) {
		return nil, nil, errCorrupt
	}
	n := 6 + int(binary.BigEndian.Uint16(v[4:]))
	if n > len(v) {
		return nil, nil, errCorrupt
	}
	return v[6:n], v[n:], nil
}
