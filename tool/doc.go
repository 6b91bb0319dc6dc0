// Package tool describes the tools with which a model works on files and commands: their
// names, their arguments, and the step that carries a call out. The doors for agents and
// the steps that a model carries out share it.
package tool
