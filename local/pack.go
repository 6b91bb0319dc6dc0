package local

import (
	"bytes"
	"io"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// packer compresses what lies in the database. To make a coder costs more than to use it on
// something small, so each is made once. It is safe for concurrent use.
type packer struct {
	mu  sync.Mutex
	enc *zstd.Encoder
	dec *zstd.Decoder
}

func (p *packer) pack(content []byte) ([]byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.enc == nil {
		enc, err := newEncoder(nil)
		if err != nil {
			return nil, err
		}
		p.enc = enc
	}
	return p.enc.EncodeAll(content, nil), nil
}

// unpack undoes the codec of b; k is needed for what is sealed.
func (p *packer) unpack(b pendingBlob, k *keys) ([]byte, error) {
	packed := b.data
	switch b.codec {
	case codecRaw:
		return packed, nil
	case codecSealed:
		u, err := newUnsealer(bytes.NewReader(packed), k)
		if err != nil {
			return nil, err
		}
		if packed, err = io.ReadAll(u); err != nil {
			return nil, err
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dec == nil {
		dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxMemory(maxUnpacked))
		if err != nil {
			return nil, err
		}
		p.dec = dec
	}
	return p.dec.DecodeAll(packed, make([]byte, 0, min(max(b.bytes, 0), smallBytes)))
}

// maxUnpacked bounds what damaged bytes can be taken for.
const maxUnpacked = 1 << 20
