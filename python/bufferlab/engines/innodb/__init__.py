"""What MySQL and MariaDB share: InnoDB's knobs, private servers, and how both are found, started and read back."""
