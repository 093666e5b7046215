import torch
from x_transformers import AutoregressiveWrapper, Decoder, TransformerWrapper


def build(job):
    net = TransformerWrapper(num_tokens=256, max_seq_len=65, attn_layers=Decoder(dim=64, depth=2))
    model = job.data_parallel(AutoregressiveWrapper(net))
    return job.step_of(model, torch.optim.AdamW(model.parameters()), torch.randint(256, (8, 65)))
