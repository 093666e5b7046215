"""Fine-tuning with adapters: Hugging Face's Trainer and PEFT, unchanged, by marks."""
