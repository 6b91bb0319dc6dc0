package plan

import (
	"errors"
	"path"
	"strconv"
	"strings"

	"github.com/acode-dev/acode/strictyaml"
)

// system reads non-empty text that the system takes as a C string.
func (d *decoder) system(v *strictyaml.Value) string {
	d.Filled(v)
	return d.System(v)
}

// path reads and cleans a path below the workspace. A directory may be the workspace
// itself; a file may not. If f is nil, path returns "".
func (d *decoder) path(f *strictyaml.Value, directory bool) string {
	if f == nil {
		return ""
	}
	p := d.system(f)
	if why := leaves(p); why != "" {
		d.Fail(f.At, "write it relative to the workspace", "%s leaves the workspace: %s", f, why)
	}
	if !directory && (strings.HasSuffix(p, "/") || path.Clean(p) == ".") {
		d.Fail(f.At, "", "%s names a directory, not a file", f)
	}
	return path.Clean(p)
}

// leaves returns the reason why p could name something outside the workspace. It refuses
// every "..", because behind a symbolic link ".." can lead anywhere.
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
func (d *decoder) glob(f *strictyaml.Value) string {
	p := d.path(f, true)
	for part := range strings.SplitSeq(p, "/") {
		if _, err := path.Match(part, ""); errors.Is(err, path.ErrBadPattern) {
			d.Fail(f.At, "", "%s is not a pattern: %q is malformed", f, part)
		}
	}
	return p
}

// mode reads permission bits. It returns 0 if the key is absent.
func (d *decoder) mode(o *strictyaml.Object) uint32 {
	f := o.Get("mode")
	if f == nil {
		return 0
	}
	if f.Kind() == strictyaml.Int {
		d.Fail(f.At, `write it in quotes, such as "0644"`, `"mode" is octal digits in quotes, not the number %s, because YAML readers disagree about its value`, f.Written())
		return 0
	}
	s := d.Text(f)
	bits, err := strconv.ParseUint(s, 8, 32)
	if f.Kind() == strictyaml.Text && (err != nil || bits > 0o777 || bits == 0 || strings.HasPrefix(s, "+")) {
		d.Fail(f.At, "", `"mode" is permission bits from "0001" to "0777", not %q`, s)
	}
	return uint32(bits)
}
