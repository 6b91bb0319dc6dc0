package command

import "os"

// OpenEnd makes a file and its pipe, and returns the command's end of the pipe.
func OpenEnd(path string) (*os.File, error) {
	s, err := openSink(path)
	if err != nil {
		return nil, err
	}
	end := os.NewFile(uintptr(s.end), "end")
	s.end = -1
	s.close()
	return end, nil
}

// Carry moves the content of the pipe at path to its file, once no other process does. It
// returns when the pipe has no writer.
func Carry(path string) {
	pipe, err := openPipe(path)
	if err != nil {
		return
	}
	s := &sink{path: path, end: -1, pipe: pipe}
	for s.takeOver(); s.stop == nil; s.takeOver() {
	}
	<-s.done
}
