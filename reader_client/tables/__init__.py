"""Tables as datasets: they are judged by the claims in their commits."""
