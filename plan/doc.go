// Package plan reads a plan file into a session.Plan that is safe to execute.
//
// The format is a strict subset of YAML. An unknown key, a wrong type, an anchor or a
// second document is an error with file, line, column and a caret under the place. Bombs
// are refused before a tree is built from them (package strictyaml). The engine relies on
// these properties of a plan:
//
//   - every id matches session.ValidName and is unique in its scope;
//   - the dependencies form a DAG over tasks that exist;
//   - every path is relative, slash-separated and clean, and does not contain "..";
//   - every pattern compiles, every duration is positive and every text is valid UTF-8;
//   - no text that the system takes as a C string contains a NUL.
package plan
