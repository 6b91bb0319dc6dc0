// Command empty does nothing: it is what a Go program takes to start and to end.
package main

func main() {}
