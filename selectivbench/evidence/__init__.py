"""What the bars and the claims rest on: committed records, and everything derived from them anew."""
