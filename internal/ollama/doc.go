// Command ollama tests acode with a real server of Ollama and a model of our own making.
//
// The model is a table: each token leads to exactly one next token, and the tokens are
// phrases. So the real engine emits an exact script of calls and answers, and counts real
// tokens. The program kills acode once in a call and once in a reply, and judges the end:
//
//   - each effect happened once, and the store is sound
//   - each request had the size of the context that is configured
//   - the server read as many tokens as its own rendering of the request has, and the
//     journal has the same number, so nothing was cut off
package main
