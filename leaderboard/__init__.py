"""The static leaderboard: records in, pages out. Imports no torch and runs no submission."""
