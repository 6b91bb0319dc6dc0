package command

import "os"

// OpenEnd makes a file and its pipe, and gives the end of the pipe that a command gets.
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

// Carry takes over from whoever is killed, and returns when the pipe at path has no
// writer.
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
