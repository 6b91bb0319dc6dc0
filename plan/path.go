package plan

import (
	"errors"
	"path"
	"strconv"
	"strings"
)

// path reads a required path below the workspace and cleans it. A directory may be the
// workspace itself; a file may not.
func (d *decoder) path(o *object, key string, directory bool) string {
	f := d.need(o, key)
	if f == nil {
		return ""
	}
	had := len(d.errs)
	p := d.system(f)
	if d.failed(had) {
		return ""
	}
	if why := leaves(p); why != "" {
		d.fail(f.place(), "write it relative to the workspace", "%q leaves the workspace: %s", key, why)
	}
	if !directory && (strings.HasSuffix(p, "/") || path.Clean(p) == ".") {
		d.fail(f.place(), "", "%q names a directory, not a file", key)
	}
	return path.Clean(p)
}

// leaves says why p could name something outside the workspace. ".." is refused even where it
// seems to lead back in: behind a symbolic link it does not.
func leaves(p string) string {
	if strings.HasPrefix(p, "/") {
		return "it is absolute"
	}
	for part := range strings.SplitSeq(p, "/") {
		if part == ".." {
			return `it has ".." in it`
		}
	}
	return ""
}

// glob reads a pattern of paths, in which ** crosses directories.
func (d *decoder) glob(o *object, key string) string {
	p := d.path(o, key, true)
	for part := range strings.SplitSeq(p, "/") {
		if _, err := path.Match(part, ""); errors.Is(err, path.ErrBadPattern) {
			d.fail(o.get(key).place(), "", "%q is no pattern: %q is malformed", key, part)
		}
	}
	return p
}

// mode reads permission bits; 0 when the key is absent.
func (d *decoder) mode(o *object) uint32 {
	f := o.get("mode")
	if f == nil {
		return 0
	}
	if f.value.Tag == "!!int" {
		d.fail(f.place(), `write it in quotes, such as "0644"`, `"mode" is octal digits in quotes, not the number %s, which readers of YAML take differently`, f.value.Value)
		return 0
	}
	s := d.text(f)
	bits, err := strconv.ParseUint(s, 8, 32)
	if isText(f.value) && (err != nil || bits > 0o777 || bits == 0 || strings.HasPrefix(s, "+")) {
		d.fail(f.place(), "", `"mode" is permission bits from "0001" to "0777", not %q`, s)
	}
	return uint32(bits)
}
