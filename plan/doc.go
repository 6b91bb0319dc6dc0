// Package plan reads the file that a person writes into a session.Plan that is safe to
// execute.
//
// The format is a strict subset of YAML: an unknown key, a wrong type, an anchor or a
// second document is an error with file, line, column and a caret under the place, and
// bombs are refused before a tree is built from them (package strictyaml). What this
// package returns holds these promises, which the engine relies on:
//
//   - every id matches session.ValidName and is unique where it has to be;
//   - the dependencies form a DAG over tasks that exist;
//   - every path is relative, slash-separated, clean, and has no ".." in it;
//   - every pattern compiles, every duration is positive, every text is valid UTF-8, and
//     none
//     that goes to the system as a C string holds a NUL.
package plan
