"""What a person types: ckpt-governor, the process, and ckptctl, the person's tool."""
