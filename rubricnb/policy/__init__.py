"""The tiny policy of the bundled worlds: model, tokenizer, decoding, episodes, warm-up. Torch."""
