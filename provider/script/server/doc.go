// Package server plays a model from a script over HTTP on loopback, so that real agents
// can be tested without a model.
//
// It speaks five dialects: Anthropic messages, OpenAI chat completions, OpenAI
// responses, Gemini generateContent and Ollama chat, each as one answer and as a stream.
// A dialect turns a request into a Conversation, and a Reply into an answer. So a script
// is a function, and is the same for all agents.
//
//   - S1: A reply depends only on the conversation that the client sent.
//   - S2: A request that a dialect cannot decode gets an error in that dialect.
package server
