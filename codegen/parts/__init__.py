"""What several planners share, under names of the field."""
