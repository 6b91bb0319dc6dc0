package scene

import "fmt"

// Answer returns the flag that reports a command's outcome to acode. verdict is "done" or
// "rerun". For a command that captures, the person knows the value.
func (p Place) Answer(name, verdict string) []string {
	if s, _ := p.Find(name); s.Captures && verdict == "done" {
		return []string{"--capture", name + "=" + s.Value}
	}
	return []string{"--uncertain=" + name + "=" + verdict}
}

// Tidy makes the files of a step's command agree with the verdict, because a kill or a
// power cut may have left half of the changes.
func (p Place) Tidy(name, verdict string) error {
	s, i := p.Find(name)
	if len(s.Does) == 0 {
		return nil
	}
	if verdict == "done" {
		i++
	}
	want := p.States()[i]
	for _, c := range s.Does {
		for _, file := range c.Paths() {
			if err := p.Put(file, want); err != nil {
				return fmt.Errorf("tidy up: %w", err)
			}
		}
	}
	return nil
}
